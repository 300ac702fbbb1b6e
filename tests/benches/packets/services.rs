//! Packets of open connections, by how many services there are.

use std::cell::RefCell;

use anyhow::{Context as _, Result};
use aya::programs::ProgramFd;
use shunt_datapath::Families;

use super::{
    feeder::Feeder,
    node::{Node, Size},
    opened::{self, Programs as _},
    traffic::{Family, Peer, Traffic, Transport},
};
use crate::{
    bench::Bench,
    measure::{Better, Bound, Limit, Study},
};

const NAME: &str = "packets/services";

/// Numbers of services, each with its label.
const SERVICES: [(u32, &str); 4] = [
    (1, "1 service"),
    (1_000, "1,000 services"),
    (10_000, "10,000 services"),
    (100_000, "100,000 services"),
];

/// Number of connections that take turns where that is the difference: each of the services has one.
const MANY: u32 = 10_000;

/// Limit of a packet's cost among 10,000 services, over that with one.
const LIMIT: f64 = 1.02;

/// A node, and its program for what clients send.
struct World {
    services: u32,
    name: &'static str,
    ingress: ProgramFd,
    _node: Node,
}

/// Runs the study.
///
/// # Errors
///
/// If the kernel does not run the programs, or they do not translate.
pub(super) fn run(bench: &mut Bench, feeder: &RefCell<Feeder>) -> Result<()> {
    if !bench.wants(NAME) {
        return Ok(());
    }
    let one = Traffic::new(Family::V4, Transport::TcpAck, Peer::Services);
    let worlds = SERVICES
        .into_iter()
        .filter(|(services, _)| *services <= MANY || !bench.options().quick)
        .map(|(services, name)| {
            let mut node = Node::new(Size {
                services,
                conntrack: 1 << 17,
                families: Families {
                    ipv4: true,
                    ipv6: false,
                },
            })?;
            let spread = one.spread(MANY, services.min(MANY));
            opened::open(&mut feeder.borrow_mut(), &mut node, &spread)?;
            Ok(World {
                services,
                name,
                ingress: node.ingress()?,
                _node: node,
            })
        })
        .collect::<Result<Vec<_>>>()
        .context("a node of many services")?;

    let mut study = Study::new(NAME, "ns a packet over the empty program", Better::Lower)
        .rounds(bench.rounds(15, 9));
    for World {
        services: _,
        name,
        ingress,
        _node,
    } in &worlds
    {
        let name = format!("{name}, 1 connection");
        study = study.subject(name, move || opened::cost(feeder, &one, ingress));
    }
    for World {
        services,
        name,
        ingress,
        _node,
    } in &worlds
    {
        let spread = one.spread(MANY, (*services).min(MANY));
        let name = format!("{name}, 10,000 connections");
        study = study.subject(name, move || opened::cost(feeder, &spread, ingress));
    }
    for connections in ["1 connection", "10,000 connections"] {
        let of = move |services| format!("{services}, {connections}");
        study = study.bound(Bound::new(
            format!("10,000 services over 1, {connections}"),
            Limit::AtMost(LIMIT),
            move |round| {
                Some(round.get(&of("10,000 services"), "")? / round.get(&of("1 service"), "")?)
            },
        ));
    }
    bench.study(study)
}
