//! Flows that are open, and what a packet of them costs.

use std::cell::RefCell;

use anyhow::{Result, ensure};
use aya::programs::ProgramFd;
use shunt_common::Counter;

use super::{
    feeder::Feeder,
    traffic::{Peer, Traffic, Transport},
};
use crate::measure::{Sample, sample};

/// Measures a program's cost for a packet of this traffic.
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

/// Programs of an agent, and what they count.
pub(super) trait Programs {
    /// The program at a client's ingress.
    ///
    /// # Errors
    ///
    /// If it is not loaded.
    fn ingress(&mut self) -> Result<ProgramFd>;

    /// The program at a client's egress.
    ///
    /// # Errors
    ///
    /// If it is not loaded.
    fn egress(&mut self) -> Result<ProgramFd>;

    /// Returns the number of packets under this counter.
    ///
    /// # Errors
    ///
    /// If that cannot be read.
    fn count(&self, counter: Counter) -> Result<u64>;
}

/// Opens the flows of `request`, and makes sure that its packets are translated from now on, and
/// so are the answers.
///
/// # Errors
///
/// If they are not.
pub(super) fn open(feeder: &mut Feeder, node: &mut impl Programs, request: &Traffic) -> Result<()> {
    let (ingress, egress) = (node.ingress()?, node.egress()?);
    // Entries lie in memory in the order in which they were made: packets in that very order would
    // find each of them beside the one before.
    let (opening, accepting) = match request.transport {
        Transport::TcpAck => (Transport::TcpSyn, Transport::TcpSynAck),
        other => (other, other),
    };
    let opening = request.with(opening, Peer::Services).in_order();
    let accepting = request.with(accepting, Peer::Backends);
    let reply = request.with(request.transport, Peer::Backends);
    for (traffic, program, counter) in [
        (&opening, &ingress, Counter::Connection),
        (&accepting, &egress, Counter::Reply),
        (request, &ingress, Counter::Request),
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
    node: &impl Programs,
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
