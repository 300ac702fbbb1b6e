//! Packets of open connections, by how many of these there are in turn.

use std::cell::RefCell;

use anyhow::{Context as _, Result};
use shunt_common::feeder::FLOWS_PER_CLIENT;
use shunt_datapath::Families;

use super::{
    feeder::Feeder,
    node::{Node, Size},
    opened::{self, Programs as _},
    traffic::{Family, Peer, Traffic, Transport},
};
use crate::{
    bench::Bench,
    measure::{Better, Study},
};

const NAME: &str = "packets/flows";

/// Numbers of connections that take turns, each with its label.
const FLOWS: [(u32, &str); 4] = [
    (1, "1"),
    (1_000, "1,000"),
    (65_536, "64k"),
    (1_048_576, "1M"),
];

/// Room for all of them, two entries each, and a seventh of the table left: the agent would keep
/// that, too.
const CONNTRACK: u32 = 2_600_000;

/// Runs the studies, one for each family.
///
/// # Errors
///
/// If the kernel does not run the programs, or they do not translate.
pub(super) fn run(bench: &mut Bench, feeder: &RefCell<Feeder>) -> Result<()> {
    for (family, name) in [(Family::V4, "v4"), (Family::V6, "v6")] {
        of_family(bench, feeder, family, &format!("{NAME}-{name}"))?;
    }
    Ok(())
}

fn of_family(
    bench: &mut Bench,
    feeder: &RefCell<Feeder>,
    family: Family,
    name: &str,
) -> Result<()> {
    if !bench.wants(name) {
        return Ok(());
    }
    let mut node = Node::new(Size {
        services: 1,
        conntrack: CONNTRACK,
        families: Families {
            ipv4: family == Family::V4,
            ipv6: family == Family::V6,
        },
    })?;
    let (ingress, egress) = (&node.ingress()?, &node.egress()?);
    let lines = feeder.borrow().lines(family).try_clone();
    let lines = &lines.context("cannot keep a program")?;
    let mut study = Study::new(name, "ns a packet over the empty program", Better::Lower)
        .rounds(bench.rounds(9, 7));
    let flows = &FLOWS[..if bench.options().quick {
        3
    } else {
        FLOWS.len()
    }];
    // All are flows of the largest number, so that each is opened once: client by client, since a
    // handshake may give way to another where a million are open at once.
    if let Some((most, _)) = flows.last() {
        for client in 0..most.div_ceil(FLOWS_PER_CLIENT) {
            let own = Traffic::new(family, Transport::TcpAck, Peer::Services)
                .spread(FLOWS_PER_CLIENT, 1)
                .after(client);
            opened::open(&mut feeder.borrow_mut(), &mut node, &own)?;
        }
    }
    for &(flows, count) in flows {
        let request = Traffic::new(family, Transport::TcpAck, Peer::Services).spread(flows, 1);
        study = study.subject(format!("request, {count} in turn"), move || {
            opened::cost(feeder, &request, ingress)
        });
    }
    for &(flows, count) in flows {
        let reply = Traffic::new(family, Transport::TcpAck, Peer::Backends).spread(flows, 1);
        study = study.subject(format!("reply, {count} in turn"), move || {
            opened::cost(feeder, &reply, egress)
        });
    }
    // The cost of the same packets if they only read their connection's lines.
    for &(flows, count) in flows {
        let request = Traffic::new(family, Transport::TcpAck, Peer::Services).spread(flows, 1);
        study = study.subject(format!("floor, {count} in turn"), move || {
            opened::cost(feeder, &request, lines)
        });
    }
    bench.study(study)
}
