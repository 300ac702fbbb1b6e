//! The client's record of times.

use std::time::Instant;

/// A time for each exchange, in nanoseconds.
#[derive(Debug)]
pub(crate) struct Times {
    /// Number of exchanges at the beginning that do not count.
    warm_up: usize,
    nanoseconds: Vec<u32>,
}

impl Times {
    /// Room for `counted` times after those of the warm-up, all of it touched already.
    pub(super) fn with_room(warm_up: usize, counted: usize) -> Self {
        let mut nanoseconds = vec![1; warm_up + counted];
        nanoseconds.clear();
        Self {
            warm_up,
            nanoseconds,
        }
    }

    /// Returns the number of exchanges to make.
    pub(super) const fn wanted(&self) -> usize {
        self.nanoseconds.capacity()
    }

    /// Records the time since `start`, and returns the present time.
    #[inline]
    pub(super) fn put(&mut self, start: Instant) -> Instant {
        let now = Instant::now();
        let took = now.duration_since(start).as_nanos();
        self.nanoseconds
            .push(u32::try_from(took).unwrap_or(u32::MAX));
        now
    }

    /// Half of the times are at most this, and 99 of 100 at most that; in nanoseconds.
    pub(crate) fn p50_and_p99(&self) -> (f64, f64) {
        let mut counted = self.counted().to_vec();
        counted.sort_unstable();
        let at = |percent: usize| f64::from(counted[(counted.len() - 1) * percent / 100]);
        (at(50), at(99))
    }

    /// All of it, in nanoseconds.
    pub(crate) fn sum(&self) -> f64 {
        self.counted().iter().map(|&time| f64::from(time)).sum()
    }

    /// Returns the number of exchanges that count.
    pub(crate) fn count(&self) -> usize {
        self.counted().len()
    }

    fn counted(&self) -> &[u32] {
        &self.nanoseconds[self.warm_up..]
    }
}
