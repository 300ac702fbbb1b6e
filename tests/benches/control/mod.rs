//! From an event's arrival to the kernel's tables being right.
//!
//! The agent is the real one, a process in a network namespace of its own, which gets events through its standard
//! input. A change is done when the agent logs it, which it does after its last write;
//! afterwards the tables are read back, by its own `status`, and must match the events.

mod addresses;
mod agent;
mod change;
mod cold;
mod followers;
mod inspection;
mod local_readers;
mod lookup;
mod maglev;
mod memory;
mod node;
mod resync;
mod rules;
mod sockets;
mod stale_sockets;
mod world;

use anyhow::Result;

use crate::{bench::Bench, machine::priority};

/// Runs the suite.
///
/// # Errors
///
/// If an agent does not start, refuses an event, or its tables are not what they should be.
pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    if !bench.wants("control/") {
        return Ok(());
    }
    priority::raise()?;
    cold::run(bench)?;
    change::run(bench)?;
    resync::run(bench)?;
    node::run(bench)?;
    addresses::run(bench)?;
    memory::run(bench)?;
    maglev::run(bench)?;
    stale_sockets::run(bench)?;
    lookup::run(bench)?;
    inspection::run(bench)?;
    followers::run(bench)?;
    local_readers::run(bench)?;
    rules::run(bench)
}
