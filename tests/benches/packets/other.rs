//! Packets of no open connection: first ones, and those that go nowhere.

use std::cell::RefCell;

use anyhow::{Result, ensure};
use shunt_common::Counter;
use shunt_datapath::{Families, TableSizes};

use super::{
    established::EMPTY,
    feeder::Feeder,
    node::{Node, Size},
    opened::{self, Programs as _},
    traffic::{Family, Peer, Traffic, Transport},
};
use crate::{
    bench::Bench,
    measure::{Better, Study, sample},
};

const NAME: &str = "packets/other";

/// Number of flows opened in a run.
const OPENED: u32 = 100_000;

/// Runs the study.
///
/// # Errors
///
/// If the kernel does not run the programs, or they do not what they should.
pub(super) fn run(bench: &mut Bench, feeder: &RefCell<Feeder>) -> Result<()> {
    if !bench.wants(NAME) {
        return Ok(());
    }
    let size = Size {
        services: 1,
        conntrack: TableSizes::default().conntrack,
        families: Families::default(),
    };
    let node = RefCell::new(Node::new(size)?);
    let ingress = &node.borrow_mut().ingress()?;
    let node = &node;
    let mut guarded = Node::guarded(size)?;
    let guard = &guarded.ingress()?;

    let mut study = Study::new(NAME, "ns a packet over the empty program", Better::Lower)
        .rounds(bench.rounds(11, 7))
        .subject(EMPTY, || Ok(sample([("", feeder.borrow_mut().bare()?)])));
    for (family, name) in [(Family::V4, "v4"), (Family::V6, "v6")] {
        for (transport, what) in [(Transport::TcpSyn, "tcp"), (Transport::Udp, "udp")] {
            let first = Traffic::new(family, transport, Peer::Services).spread(OPENED, 1);
            study = study.subject(format!("{name} {what} first packet"), move || {
                let cost = first_packet(&mut feeder.borrow_mut(), &mut node.borrow_mut(), &first)?;
                Ok(sample([("", cost)]))
            });
        }
        let stranger = Traffic::new(family, Transport::TcpAck, Peer::Stranger);
        let nobody = Traffic::new(family, Transport::TcpSyn, Peer::Nobody);
        opened::all_count(
            &mut feeder.borrow_mut(),
            &*node.borrow(),
            &nobody,
            ingress,
            Counter::RejectNoBackend,
        )?;
        let other_port = Traffic::new(family, Transport::TcpSyn, Peer::OtherPort);
        opened::all_count(
            &mut feeder.borrow_mut(),
            &guarded,
            &other_port,
            guard,
            Counter::RejectUnknownPort,
        )?;
        study = study
            .subject(format!("{name} to no service"), move || {
                opened::cost(feeder, &stranger, ingress)
            })
            .subject(format!("{name} to no service, guarded"), move || {
                opened::cost(feeder, &stranger, guard)
            })
            .subject(
                format!("{name} to another port, guarded: ICMP error"),
                move || opened::cost(feeder, &other_port, guard),
            )
            .subject(format!("{name} without backend: ICMP error"), move || {
                opened::cost(feeder, &nobody, ingress)
            });
    }
    bench.study(study)
}

/// Measures the cost of a flow's first packet, in nanoseconds, in a table that is empty before.
pub(super) fn first_packet(feeder: &mut Feeder, node: &mut Node, traffic: &Traffic) -> Result<f64> {
    let before = node.count(Counter::Connection)?;
    let ingress = node.ingress()?;
    let cost = feeder.cost_of_each(traffic, &ingress)?;
    let opened = node.count(Counter::Connection)? - before;
    node.forget()?;
    ensure!(
        opened == u64::from(traffic.flows()),
        "of {} flows {opened} were opened",
        traffic.flows()
    );
    Ok(cost)
}
