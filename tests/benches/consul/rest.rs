//! A catalog in which nothing changes: waits end, and each answer is read, as its index alone does not show that it is
//! the one before.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use shunt_tests::interrupt;

use super::{follower::Follower, world::World};
use crate::{
    bench::Bench,
    measure::{Better, Bound, Limit, Sample, Study, sample},
};

/// Longer than a query waits, so that each has ended.
const TIME: Duration = Duration::from_secs(75);

/// Limit of the agent's share of a processor, in percent.
const BUSY: f64 = 5.0;

const SUBJECT: &str = "50,000 instances at rest";

/// Runs the study.
///
/// # Errors
///
/// If the agent does not do as it should, or writes anything.
pub(super) fn run(bench: &mut Bench, world: &World, follower: &Follower<'_>) -> Result<()> {
    let name = world.study(follower.way, "rest");
    if !bench.wants(&name) {
        return Ok(());
    }
    bench.study(
        Study::new(name, "% of one processor", Better::Lower)
            .slow()
            .rounds(bench.rounds(3, 1))
            .subject(SUBJECT, || round(follower))
            .bound(Bound::figure(
                "at rest, % of one processor",
                SUBJECT,
                "",
                Limit::AtMost(BUSY),
            )),
    )
}

/// Measures the agent's share of a processor meanwhile.
fn round(follower: &Follower<'_>) -> Result<Sample> {
    let (applied, before) = (follower.applied()?, follower.busy()?);
    let begin = Instant::now();
    while begin.elapsed() < TIME {
        interrupt::check()?;
        thread::sleep(Duration::from_millis(100));
    }
    let took = begin.elapsed().as_secs_f64();
    let busy = follower.busy()? - before;
    let events = follower.applied()? - applied;
    ensure!(
        events == 0,
        "nothing changed, and there were {events} events"
    );
    Ok(sample([("", busy / took * 100.0), ("took, s", took)]))
}
