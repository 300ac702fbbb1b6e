//! Transit where a network card's driver has the packets: nanoseconds of the XDP program, as
//! `BPF_PROG_TEST_RUN` runs it, beside programs written by hand; and requests over veth pairs.
//!
//! As for TC, a [`Feeder`] writes the headers of each packet and tail-calls the program, and what
//! that takes with an empty program is subtracted. The routes are real, in a network namespace. What TC
//! needs before it sees a packet is in none of that: one study has frames go on as a driver's do.

mod dsr;
mod established;
mod feeder;
mod flows;
mod flows_v6;
mod generic;
mod live;
mod new;
mod node;
mod path;
mod ports;
mod published;
mod stranger;

use std::cell::RefCell;

use anyhow::Result;

use self::{feeder::Feeder, node::Network};
use crate::{bench::Bench, packets::clock};

/// Unit of the single packets' figures.
const UNIT: &str = "ns a packet over the empty program";

/// Runs the suite.
///
/// # Errors
///
/// If the kernel does not load or run the programs, or a namespace cannot be set up.
pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    if !bench.wants("xdp/") {
        return Ok(());
    }
    generic::run(bench)?;
    let network = Network::new()?;
    network.enter(|| {
        clock::stay_on_this_processor()?;
        let feeder = RefCell::new(Feeder::load(&bench.options().feeder)?);
        established::run(bench, &feeder)?;
        dsr::run(bench, &feeder)?;
        stranger::run(bench, &feeder)?;
        new::run(bench, &feeder)?;
        live::run(bench, &feeder)?;
        ports::run(bench, &feeder)
    })?;
    published::run(bench);
    path::run(bench)
}
