//! `cargo xtask bench`: what packets, connections and changes cost, beside what else they could.
//!
//! A suite is a module with `pub fn run(bench: &mut Bench) -> Result<()>`, which builds what it
//! measures and hands [studies](measure::Study) to [`Bench::study`]. All that it makes must be
//! removed when it is dropped: a run that fails or is interrupted ends by returning.

mod bench;
mod cluster;
mod consul;
mod control;
mod controllers;
mod load;
mod machine;
mod measure;
mod packets;
mod report;
mod sockets;
mod traffic;
mod xdp;

use std::process::ExitCode;

use clap::Parser as _;

use crate::bench::{Bench, Options};

fn main() -> ExitCode {
    let parts = [
        load::serve_if_told,
        load::ask_if_told,
        sockets::connect_if_told,
    ];
    if let Some(played) = parts.into_iter().find_map(|part| part()) {
        return played;
    }
    shunt_tests::measure_agents();
    match Bench::new(Options::parse()).and_then(Bench::run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
