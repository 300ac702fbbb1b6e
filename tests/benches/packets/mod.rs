//! Nanoseconds a packet of each program, as `BPF_PROG_TEST_RUN` runs them: no device, no stack,
//! nothing but the program.
//!
//! The kernel does not put the packet back between two runs, so a [`Feeder`] writes its headers and
//! tail-calls the program, the very one that the agent has loaded. What the feeder takes, with an
//! empty program in the other's place and the same flows, is measured in the same turn and
//! subtracted: a figure is what the program costs over the empty one.

mod against;
pub(crate) mod clock;
mod established;
pub(crate) mod feeder;
mod flows;
mod monitor;
pub(crate) mod node;
mod opened;
mod other;
pub(crate) mod programs;
mod revision;
mod services;
mod splits;
pub(crate) mod traffic;

use std::cell::RefCell;

use anyhow::Result;

use self::feeder::Feeder;
use crate::bench::Bench;

/// Runs the suite.
///
/// # Errors
///
/// If the kernel does not load or run the programs.
pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    if !bench.wants("packets/") {
        return Ok(());
    }
    clock::stay_on_this_processor()?;
    let feeder = RefCell::new(Feeder::load(&bench.options().feeder)?);
    against::run(bench, &feeder)?;
    established::run(bench, &feeder)?;
    other::run(bench, &feeder)?;
    flows::run(bench, &feeder)?;
    services::run(bench, &feeder)?;
    splits::run(bench, &feeder)?;
    monitor::run(bench, &feeder)
}
