//! Success of a connection's search for a source port if nearly all towards its backend are in use.

use std::cell::{Cell, RefCell};

use anyhow::{Result, ensure};
use shunt_common::{Counter, feeder::FLOWS_PER_CLIENT};
use shunt_datapath::DatapathOptions;

use super::{
    feeder::{Fed, Feeder, Said},
    node::{Node, Services},
};
use crate::{
    bench::Bench,
    measure::{Better, Bound, Limit, Study, sample},
    packets::traffic::{Family, Peer, Traffic, Transport},
};

const NAME: &str = "xdp/ports";

/// Number of services, each with a backend.
const SERVICES: u32 = 4;

/// Share of the ports towards each backend that are in use, in percent.
const USED: u32 = 95;

/// Number of connections that then search for one, towards each.
const LATE: u32 = 250;

/// Least share of them that has to find one, in percent.
const LIMIT: f64 = 99.8;

/// Runs the study.
///
/// # Errors
///
/// If the kernel does not run the programs, or not so many connections are open.
pub(super) fn run(bench: &mut Bench, feeder: &RefCell<Feeder>) -> Result<()> {
    if !bench.wants(NAME) {
        return Ok(());
    }
    let mut node = Node::new(Services {
        count: SERVICES,
        backends: 1,
        by_maglev: false,
        attached: false,
    })?;
    let ports = u32::from(DatapathOptions::default().snat_ports.count);
    // Rounded up.
    let used = (ports * USED).div_ceil(100) * SERVICES;
    // Other clients in each round, who are given other ports.
    let clients = Cell::new(0);
    let others = used.div_ceil(FLOWS_PER_CLIENT) + 1;
    let found = format!("{USED} % in use");
    let study = Study::new(
        NAME,
        "% of new connections that find a port",
        Better::Higher,
    )
    .rounds(bench.rounds(9, 5))
    .slow()
    .subject(found.clone(), || {
        let before = clients.replace(clients.get() + others + 1);
        let flows = |count| {
            Traffic::new(Family::V4, Transport::TcpSyn, Peer::Services)
                .spread(count, SERVICES)
                .after(before)
        };
        let feeder = &mut feeder.borrow_mut();
        let opened = open(feeder, &mut node, &flows(used), used)?;
        ensure!(opened == used, "of {used} connections {opened} are open");
        let late = LATE * SERVICES;
        let found = open(feeder, &mut node, &flows(late).after(before + others), late)?;
        node.forget()?;
        Ok(sample([("", 100.0 * f64::from(found) / f64::from(late))]))
    });
    bench.study(study.bound(Bound::figure(
        "a port is found",
        &found,
        "",
        Limit::AtLeast(LIMIT),
    )))
}

/// Feeds the first packets of so many connections; returns how many were opened.
fn open(feeder: &mut Feeder, node: &mut Node, traffic: &Traffic, count: u32) -> Result<u32> {
    let before = node.count(Counter::Connection)?;
    let fed = Fed {
        program: node.at_driver()?,
        says: Said::Various,
    };
    feeder.feed(&traffic.plan(), &fed, count)?;
    Ok(u32::try_from(node.count(Counter::Connection)? - before)?)
}
