//! A workload that is ready, or is not any more, among many; and what all of them take of the memory.

use std::{thread, time::Duration};

use anyhow::Result;
use shunt_tests::interrupt;

use super::world::World;
use crate::{
    bench::Bench,
    machine::process,
    measure::{Better, Bound, Limit, Study, sample},
};

const CHANGE: &str = "controllers/change";
const MEMORY: &str = "controllers/memory";

/// Number of changes in a round.
const CHANGES: u32 = 500;

/// Than what one in a hundred may take longer, in milliseconds.
const LIMIT: f64 = 50.0;

/// Limit of the resident memory, in megabytes.
const RESIDENT: f64 = 200.0;

/// Pause between two changes.
const PAUSE: Duration = Duration::from_millis(2);

/// Runs the studies.
///
/// # Errors
///
/// If a controller does not do as it should.
pub(super) fn run(bench: &mut Bench) -> Result<()> {
    const SUBJECT: &str = "among 10,000 workloads";
    if !bench.wants(CHANGE) && !bench.wants(MEMORY) {
        return Ok(());
    }
    let world = World::new()?;
    let (controller, _) = world.publish(&bench.options().agent)?;
    let megabytes = |line: &str| -> Result<f64> {
        let bytes = process::settled(|| process::memory(controller.pid(), line))?;
        Ok(bytes as f64 / 1e6)
    };
    let first = megabytes("VmRSS")?;
    let rounds = bench.rounds(5, 2);
    bench.study(
        Study::new(
            CHANGE,
            "ms from a workload's other readiness until its slice says so",
            Better::Lower,
        )
        .slow()
        .rounds(rounds)
        .subject(SUBJECT, || {
            let mut times = Vec::new();
            for _ in 0..CHANGES {
                interrupt::check()?;
                times.push(world.change()?.as_secs_f64() * 1e3);
                thread::sleep(PAUSE);
            }
            world.check()?;
            times.sort_by(f64::total_cmp);
            let at = |hundredth: usize| times[times.len() * hundredth / 100];
            Ok(sample([("p50", at(50)), ("p99", at(99))]))
        })
        .bound(Bound::figure(
            "p99, ms",
            SUBJECT,
            "p99",
            Limit::AtMost(LIMIT),
        )),
    )?;
    let most = "after changes";
    bench.study(
        Study::new(MEMORY, "MB resident", Better::Lower)
            .slow()
            .rounds(1)
            .subject(SUBJECT, || {
                Ok(sample([
                    ("after start", first),
                    (most, megabytes("VmRSS")?),
                    ("peak", megabytes("VmHWM")?),
                ]))
            })
            .bound(Bound::figure(
                "after changes, MB",
                SUBJECT,
                most,
                Limit::AtMost(RESIDENT),
            )),
    )
}
