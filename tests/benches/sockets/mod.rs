//! Cost of the translation of a process' sockets: exchanges with a service whose packets no program
//! translates, and the system calls that have a program.
//!
//! A process is in one of the cgroups of a [`Node`](node::Node), and so translated or not; the one that
//! is not asks the backend itself, in the same namespace and of the same server.

mod comparison;
mod connect;
mod exchanges;
mod node;
mod programs;

use anyhow::Result;

pub(crate) use self::connect::connect_if_told;
use self::{exchanges::Others, node::Node};
use crate::bench::Bench;

/// Runs the suite.
///
/// # Errors
///
/// When a node cannot be set up or measured, or the user stops it.
pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    if !bench.wants("sockets/") {
        return Ok(());
    }
    eprintln!("sockets: setting up");
    let node = Node::new(&bench.options().agent)?;
    let others = Others::new(&bench.options().feeder)?;
    exchanges::run(bench, &node, &others)?;
    connect::run(bench, &node)?;
    bench.facts(programs::sizes(&node)?);
    Ok(())
}
