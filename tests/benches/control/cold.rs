//! The first Resync of an agent, into empty tables.

use std::path::Path;

use anyhow::Result;

use super::{
    agent::{Subject, milliseconds},
    world::{LARGE, WIDE, World},
};
use crate::{
    bench::Bench,
    measure::{Better, Bound, Limit, Sample, Study, sample},
};

const NAME: &str = "control/cold";

/// Limit of the time for 250,000 backends, in milliseconds.
const LIMIT: f64 = 1000.0;

/// Runs the study.
///
/// # Errors
///
/// If an agent does not do as it should.
pub(super) fn run(bench: &mut Bench) -> Result<()> {
    if !bench.wants(NAME) {
        return Ok(());
    }
    let binary = bench.options().agent.clone();
    let (wide, large) = (WIDE.resync(), LARGE.resync());
    let (wide_name, large_name) = (&WIDE.name(), &LARGE.name());
    bench.study(
        Study::new(
            NAME,
            "ms until all backends are in the kernel",
            Better::Lower,
        )
        .rounds(bench.rounds(7, 3))
        .subject(wide_name, || cold(&binary, WIDE, &wide))
        .subject(large_name, || cold(&binary, LARGE, &large))
        .bound(Bound::figure(
            "250,000 backends, ms",
            large_name,
            "",
            Limit::AtMost(LIMIT),
        )),
    )
}

/// Measures the time of a new agent's first Resync, in milliseconds.
pub(super) fn cold(binary: &Path, world: World, resync: &str) -> Result<Sample> {
    let mut subject = Subject::start(binary, &[])?;
    let taken = subject.apply(resync)?;
    subject.check(world.all_backends())?;
    Ok(sample([("", milliseconds(taken.time))]))
}
