//! A check whose output is another one all the time, and whose status stays.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use shunt_tests::interrupt;

use super::{
    follower::Follower,
    world::{Change, World},
};
use crate::{
    bench::Bench,
    measure::{Better, Bound, Limit, Sample, Study, sample},
};

/// Number of outputs a second, and their duration.
const RATE: u32 = 50;
const TIME: Duration = Duration::from_secs(10);

/// Limit of the agent's share of a processor, in percent.
const BUSY: f64 = 5.0;

const SUBJECT: &str = "50 outputs a second";

/// The instance that flaps: the first service's, which is well.
const FLAPPING: Change = Change {
    service: 0,
    is_another: false,
};

/// Runs the study.
///
/// # Errors
///
/// If the agent does not do as it should, or writes anything.
pub(super) fn run(bench: &mut Bench, world: &World, follower: &Follower<'_>) -> Result<()> {
    let name = world.study(follower.way, "flapping");
    if !bench.wants(&name) {
        return Ok(());
    }
    bench.study(
        Study::new(name, "% of one processor", Better::Lower)
            .slow()
            .rounds(bench.rounds(5, 1))
            .subject(SUBJECT, || round(world, follower))
            .bound(Bound::figure(
                "50 outputs a second, % of one processor",
                SUBJECT,
                "",
                Limit::AtMost(BUSY),
            )),
    )
}

/// Measures the agent's share of a processor meanwhile.
fn round(world: &World, follower: &Follower<'_>) -> Result<Sample> {
    let (applied, before) = (follower.applied()?, follower.busy()?);
    let begin = Instant::now();
    let count = RATE * TIME.as_secs() as u32;
    for number in 0..count {
        interrupt::check()?;
        world.turn(FLAPPING, &number.to_string())?;
        let next = begin + TIME * (number + 1) / count;
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    let took = begin.elapsed().as_secs_f64();
    let busy = follower.busy()? - before;
    let events = follower.applied()? - applied;
    ensure!(events == 0, "outputs alone led to {events} events");
    Ok(sample([("", busy / took * 100.0), ("took, s", took)]))
}
