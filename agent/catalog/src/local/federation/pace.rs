//! The rate at which records go around.

use std::{
    hash::{BuildHasher as _, RandomState},
    time::Duration,
};

use tokio::time::{Instant, sleep_until};

/// The first try after an error; each further one waits twice as long.
const FIRST: Duration = Duration::from_secs(1);

/// No try waits longer, but for the random part.
const LONGEST: Duration = Duration::from_mins(2);

/// Some at once, and then one each interval.
#[derive(Debug)]
pub(super) struct Pace {
    interval: Duration,
    burst: u32,
    /// Time at which all of the burst is there again.
    full: Instant,
}

impl Pace {
    pub(super) fn new(burst: u32, interval: Duration) -> Self {
        Self {
            interval,
            burst,
            full: Instant::now(),
        }
    }

    /// Waits until it is one's turn.
    pub(super) async fn turn(&mut self) {
        sleep_until(self.next(Instant::now())).await;
    }

    /// Returns the time at which a caller that comes now has its turn.
    fn next(&mut self, now: Instant) -> Instant {
        let Self {
            interval,
            burst,
            full,
        } = self;
        *full = (*full).max(now) + *interval;
        *full - *interval * *burst
    }
}

/// Returns the wait after so many failures before this one, with a tenth more at random: agents that lost the
/// same primary do not come back together.
pub(super) fn backoff(failures: u32) -> Duration {
    let wait = FIRST.saturating_mul(1_u32.checked_shl(failures).unwrap_or(u32::MAX));
    let wait = wait.min(LONGEST);
    wait + (wait / 10).mul_f64(random() as f64 / u64::MAX as f64)
}

/// Any number.
pub(super) fn random() -> u64 {
    RandomState::new().hash_one(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_go_at_once_and_then_one_each_interval() {
        let mut pace = Pace::new(5, Duration::from_secs(5));
        let now = pace.full;
        for _ in 0..5 {
            assert!(pace.next(now) <= now);
        }
        let after = [pace.next(now), pace.next(now)];
        assert_eq!(after.map(|turn| (turn - now).as_secs()), [5, 10]);
    }

    #[test]
    fn failures_wait_longer_and_not_for_ever() {
        for (failures, seconds) in [(0, 1), (1, 2), (6, 64), (7, 120), (40, 120)] {
            let wait = backoff(failures);
            let least = Duration::from_secs(seconds);
            assert!(
                wait >= least && wait <= least + least / 10,
                "{failures}: {wait:?}"
            );
        }
    }
}
