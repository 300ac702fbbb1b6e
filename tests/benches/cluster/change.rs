//! One slice changed, among many.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use shunt_tests::interrupt;

use super::world::World;
use crate::{
    bench::Bench,
    machine::frontends::Frontends,
    measure::{Better, Bound, Limit, Sample, Study, sample},
};

pub(super) const NAME: &str = "cluster/change";

/// Number of changes in a round.
const CHANGES: u32 = 1_000;

/// Limits of the median and of the 99th percentile, in microseconds.
const HALF: f64 = 500.0;
const MOST: f64 = 3_000.0;

/// Pause between two changes.
const PAUSE: Duration = Duration::from_millis(2);

/// Changes of a cluster's slices, each of another service than the one before.
pub(super) struct Changes<'a> {
    world: &'a World,
    kernel: Frontends,
}

/// Runs the study.
///
/// # Errors
///
/// If an agent does not do as it should.
pub(super) fn run(bench: &mut Bench, changes: &Changes<'_>) -> Result<()> {
    const SUBJECT: &str = "among 250,000 endpoints";
    if !bench.wants(NAME) {
        return Ok(());
    }
    bench.study(
        Study::new(
            NAME,
            "us from the last byte of a slice's change until it is in the kernel",
            Better::Lower,
        )
        .slow()
        .rounds(bench.rounds(9, 3))
        .subject(SUBJECT, || changes.round())
        .bound(Bound::figure(
            "p50, us",
            SUBJECT,
            "p50",
            Limit::AtMost(HALF),
        ))
        .bound(Bound::figure(
            "p99, us",
            SUBJECT,
            "p99",
            Limit::AtMost(MOST),
        )),
    )
}

impl<'a> Changes<'a> {
    /// No change yet.
    pub(super) const fn new(world: &'a World, kernel: Frontends) -> Self {
        Self { world, kernel }
    }

    /// Measures the time of each of so many changes, one after the other, in microseconds.
    fn round(&self) -> Result<Sample> {
        let mut times = Vec::new();
        for _ in 0..CHANGES {
            interrupt::check()?;
            let (sent, there) = self.one()?;
            times.push(there.saturating_duration_since(sent).as_secs_f64() * 1e6);
            thread::sleep(PAUSE);
        }
        self.world.server.forget_known();
        times.sort_by(f64::total_cmp);
        let at = |hundredth: usize| times[times.len() * hundredth / 100];
        Ok(sample([("p50", at(50)), ("p99", at(99))]))
    }

    /// Changes a slice. Returns the times at which the server had sent it, and at which it was in the kernel.
    fn one(&self) -> Result<(Instant, Instant)> {
        let (service, slice) = self.world.change();
        let before = self.kernel.cell(service);
        self.world.server.put(slice);
        let there = self.kernel.await_other(service, before)?;
        let sent = self.world.server.last_sent();
        Ok((sent.context("nothing was sent")?, there))
    }

    /// Changes a slice, and does not wait.
    pub(super) fn put(&self) {
        let (_, slice) = self.world.change();
        self.world.server.put(slice);
    }

    /// Waits until all changes are in the kernel.
    ///
    /// # Errors
    ///
    /// If they never are.
    pub(super) fn settle(&self) -> Result<()> {
        // Changes come in their order.
        self.one()?;
        thread::sleep(PAUSE);
        self.world.server.forget_known();
        Ok(())
    }
}
