//! An agent's start, into empty tables.

use anyhow::Result;

use super::{
    follower::Follower,
    world::{ALL, World},
};
use crate::{
    bench::Bench,
    machine::process,
    measure::{Better, Bound, Limit, Study, sample},
};

const NAME: &str = "cluster/cold";

/// Limit of the time, in milliseconds.
const LIMIT: f64 = 5_000.0;

/// Runs the study.
///
/// # Errors
///
/// If an agent does not do as it should.
pub(super) fn run(bench: &mut Bench, world: &World) -> Result<()> {
    if !bench.wants(NAME) {
        return Ok(());
    }
    let binary = bench.options().agent.clone();
    bench.study(
        Study::new(
            NAME,
            "ms from the first byte of a list until all frontends are in the kernel",
            Better::Lower,
        )
        .slow()
        .rounds(bench.rounds(7, 3))
        .subject("agent", || {
            let (follower, _, time) = Follower::complete(&binary, world, ALL)?;
            let busy = process::processor_seconds(follower.pid())?;
            follower.check()?;
            Ok(sample([
                ("time", time.as_secs_f64() * 1e3),
                ("on a processor, since it was started", busy * 1e3),
            ]))
        })
        .bound(Bound::figure(
            "5,000 services x 50 endpoints, ms",
            "agent",
            "time",
            Limit::AtMost(LIMIT),
        )),
    )
}
