//! An agent's start, into empty tables.

use anyhow::Result;

use super::{
    follower::Follower,
    world::{Way, World},
};
use crate::{
    bench::Bench,
    measure::{Better, Study, sample},
};

/// Runs the study.
///
/// # Errors
///
/// If an agent does not do as it should.
pub(super) fn run(bench: &mut Bench, world: &World, way: Way) -> Result<()> {
    let name = world.study(way, "start");
    if !bench.wants(&name) {
        return Ok(());
    }
    let binary = bench.options().agent.clone();
    bench.study(
        Study::new(
            name,
            "ms from an agent's start until 5,000 services x 10 instances are in the kernel",
            Better::Lower,
        )
        .slow()
        .rounds(bench.rounds(3, 1))
        .subject("agent", || {
            let (follower, _, time) = Follower::complete(&binary, world, way)?;
            let busy = follower.busy()?;
            follower.check()?;
            Ok(sample([
                ("time", time.as_secs_f64() * 1e3),
                ("on a processor", busy * 1e3),
            ]))
        }),
    )
}
