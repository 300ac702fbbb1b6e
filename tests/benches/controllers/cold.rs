//! A controller's start, with no slice there.

use anyhow::Result;

use super::world::World;
use crate::{
    bench::Bench,
    machine::process,
    measure::{Better, Bound, Limit, Study, sample},
};

const NAME: &str = "controllers/cold";

/// Limit of the time, in milliseconds.
const LIMIT: f64 = 10_000.0;

/// Runs the study.
///
/// # Errors
///
/// If a controller does not do as it should.
pub(super) fn run(bench: &mut Bench) -> Result<()> {
    if !bench.wants(NAME) {
        return Ok(());
    }
    let binary = bench.options().agent.clone();
    bench.study(
        Study::new(
            NAME,
            "ms from the start of the process until all workloads are in slices",
            Better::Lower,
        )
        .slow()
        .rounds(bench.rounds(5, 2))
        .subject("controller", || {
            // A server of its own each time: there are no slices yet.
            let world = World::new()?;
            let (controller, time) = world.publish(&binary)?;
            let busy = process::processor_seconds(controller.pid())?;
            world.check()?;
            Ok(sample([
                ("time", time.as_secs_f64() * 1e3),
                ("on a processor", busy * 1e3),
            ]))
        })
        .bound(Bound::figure(
            "10,000 workloads behind 200 services, ms",
            "controller",
            "time",
            Limit::AtMost(LIMIT),
        )),
    )
}
