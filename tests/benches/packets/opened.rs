//! Flows that are open, and what a packet of them costs.

use std::cell::RefCell;

use anyhow::{Result, ensure};
use aya::programs::ProgramFd;
use shunt_common::Counter;

use super::{
    feeder::Feeder,
    node::Node,
    traffic::{Peer, Traffic, Transport},
};
use crate::measure::{Sample, sample};

/// What a program costs for a packet of this traffic.
///
/// # Errors
///
/// If the kernel does not run it.
pub(super) fn cost(
    feeder: &RefCell<Feeder>,
    traffic: &Traffic,
    program: &ProgramFd,
) -> Result<Sample> {
    Ok(sample([("", feeder.borrow_mut().cost(traffic, program)?)]))
}

/// Opens the flows of `request`, and makes sure that its packets are translated from now on, and
/// so are the answers.
///
/// # Errors
///
/// If they are not.
pub(super) fn open(feeder: &mut Feeder, node: &mut Node, request: &Traffic) -> Result<()> {
    let (ingress, egress) = (node.ingress()?, node.egress()?);
    // Entries lie in memory in the order in which they were made: packets in that very order would
    // find each of them beside the one before.
    let opening = match request.transport {
        Transport::TcpAck => request.with(Transport::TcpSyn, Peer::Services),
        _ => *request,
    }
    .in_order();
    let reply = request.with(request.transport, Peer::Backends);
    for (traffic, program, counter) in [
        (&opening, &ingress, Counter::Connection),
        (&reply, &egress, Counter::Reply),
        (request, &ingress, Counter::Request),
    ] {
        all_count(feeder, node, traffic, program, counter)?;
    }
    Ok(())
}

/// Feeds a packet of each flow, and makes sure that each of them is counted so.
///
/// # Errors
///
/// If one is not.
pub(super) fn all_count(
    feeder: &mut Feeder,
    node: &Node,
    traffic: &Traffic,
    program: &ProgramFd,
    counter: Counter,
) -> Result<()> {
    let before = node.count(counter)?;
    feeder.feed(traffic, program, traffic.flows())?;
    let (counted, flows) = (node.count(counter)? - before, u64::from(traffic.flows()));
    ensure!(
        counted == flows,
        "of {flows} packets {counted} were counted as {counter:?}: {traffic:?}"
    );
    Ok(())
}
