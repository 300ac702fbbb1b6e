//! The agent's cost of many changes.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use shunt_tests::interrupt;

use super::{change::Changes, follower::Follower};
use crate::{
    bench::Bench,
    machine::process,
    measure::{Better, Bound, Limit, Sample, Study, sample},
};

pub(super) const NAME: &str = "cluster/churn";

/// Number of changes a second.
const RATE: u32 = 1_000;

/// Duration of the changes.
const TIME: Duration = Duration::from_secs(5);

/// Limit of the agent's share of a processor, in percent.
const LIMIT: f64 = 15.0;

/// Runs the study.
///
/// # Errors
///
/// If an agent does not do as it should.
pub(super) fn run(bench: &mut Bench, changes: &Changes<'_>, follower: &Follower) -> Result<()> {
    const SUBJECT: &str = "1,000 slices a second";
    if !bench.wants(NAME) {
        return Ok(());
    }
    bench.study(
        Study::new(NAME, "% of one processor", Better::Lower)
            .slow()
            .rounds(bench.rounds(7, 3))
            .subject(SUBJECT, || round(changes, follower.pid()))
            .bound(Bound::figure(
                "1,000 slices a second, % of one processor",
                SUBJECT,
                "",
                Limit::AtMost(LIMIT),
            )),
    )
}

/// Measures the agent's share of a processor while slices change, one after the other.
fn round(changes: &Changes<'_>, agent: u32) -> Result<Sample> {
    let before = process::processor_seconds(agent)?;
    let begin = Instant::now();
    let count = RATE * TIME.as_secs() as u32;
    for number in 0..count {
        interrupt::check()?;
        changes.put();
        let next = begin + TIME * number / count;
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    changes.settle()?;
    let busy = process::processor_seconds(agent)? - before;
    // A machine that cannot keep up makes the same changes in a longer time: what counts is what
    // each of them costs.
    let share = busy / TIME.as_secs_f64() * 100.0;
    Ok(sample([
        ("", share),
        ("took, s", begin.elapsed().as_secs_f64()),
    ]))
}
