//! The rate of requests to Consul.

use std::{
    hash::{BuildHasher as _, RandomState},
    time::{Duration, Instant},
};

/// The times that a query keeps to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::consul) struct Pace {
    /// Time that a query blocks at Consul. One whose client has gone keeps its place there for as long.
    pub(in crate::consul) wait: Duration,
    /// Time that it blocks while the token may not see all: a right that is given back may change no answer.
    pub(in crate::consul) hidden: Duration,
    /// Longest time for the answer to a query that does not block. Without a leader Consul holds it back for 7
    /// s.
    pub(in crate::consul) answer: Duration,
    /// The longest pause after a first failure; it doubles with each further one.
    pub(in crate::consul) first: Duration,
    /// The longest pause of all.
    pub(in crate::consul) longest: Duration,
    /// The time between two answers of a query, once it has had many at once.
    pub(in crate::consul) between: Duration,
    /// Largest number at once.
    pub(in crate::consul) burst: u32,
    /// Pause after an answer without news, as a multiple of the time that it took to read it: the answer may be
    /// long, and outputs of checks alone lead to one after the other.
    pub(in crate::consul) rests: u32,
    /// The longest such pause. What changes meanwhile is seen after it.
    pub(in crate::consul) longest_rest: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            wait: Duration::from_mins(1),
            hidden: Duration::from_secs(10),
            answer: Duration::from_secs(10),
            first: Duration::from_millis(500),
            longest: Duration::from_secs(15),
            between: Duration::from_millis(100),
            burst: 10,
            rests: 20,
            longest_rest: Duration::from_millis(2_500),
        }
    }
}

impl Pace {
    /// Returns the longest time for an answer to a query that blocks for such a `wait`: Consul adds up to a sixteenth.
    pub(super) fn blocked(&self, wait: Duration) -> Duration {
        wait + wait / 16 + self.answer
    }

    /// Returns the pause after an answer that had no news, and took so long to read.
    pub(super) fn rest(&self, reading: Duration) -> Duration {
        self.longest_rest.min(reading.saturating_mul(self.rests))
    }
}

/// Returns whether an answer that came after so long came well before the `wait` of its query was over.
pub(super) fn is_early(after: Duration, wait: Duration) -> bool {
    after < wait / 2
}

/// A random part of a time, so that agents and queries do not all come at once.
pub(in crate::consul) fn part_of(most: Duration) -> Duration {
    let random = RandomState::new().hash_one(most);
    Duration::from_micros(random % (most.as_micros() as u64 + 1))
}

/// The pauses between failures: any part of a time that doubles.
#[derive(Debug, Default)]
pub(in crate::consul) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// It has worked.
    pub(in crate::consul) const fn reset(&mut self) {
        self.failures = 0;
    }

    /// It has failed: how long to wait now.
    pub(in crate::consul) fn pause(&mut self, pace: &Pace) -> Duration {
        let most = self.most(pace);
        self.failures = self.failures.saturating_add(1);
        part_of(most)
    }

    fn most(&self, pace: &Pace) -> Duration {
        let doubled = pace.first.saturating_mul(1 << self.failures.min(16));
        doubled.min(pace.longest)
    }
}

/// A bucket of answers: a flapping check costs no more than it has.
#[derive(Debug)]
pub(super) struct Bucket {
    /// Time at which the bucket would be full.
    full_at: Instant,
}

impl Bucket {
    pub(super) fn new() -> Self {
        Self {
            full_at: Instant::now(),
        }
    }

    /// Takes an answer: how long to wait before it is there.
    pub(super) fn take(&mut self, pace: &Pace, now: Instant) -> Duration {
        self.full_at = self.full_at.max(now) + pace.between;
        let room = pace.between * pace.burst;
        self.full_at.duration_since(now).saturating_sub(room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_any_part_of_a_time_that_doubles_up_to_a_limit() {
        let pace = Pace::default();
        let mut backoff = Backoff::default();
        for _ in 0..2 {
            for most in [500, 1000, 2000, 4000, 8000, 15_000, 15_000] {
                assert_eq!(backoff.most(&pace), Duration::from_millis(most));
                assert!(backoff.pause(&pace) <= Duration::from_millis(most));
            }
            backoff.reset();
        }
        backoff.failures = u32::MAX;
        assert_eq!(backoff.most(&pace), pace.longest);
        let parts: Vec<_> = (0..50).map(|_| part_of(pace.longest)).collect();
        assert!(
            parts.iter().any(|part| *part < pace.longest / 2),
            "full jitter"
        );
        assert!(parts.iter().any(|part| *part > pace.longest / 2));
    }

    #[test]
    fn ten_answers_come_at_once_and_then_ten_a_second() {
        let pace = Pace::default();
        let mut bucket = Bucket::new();
        let start = bucket.full_at;
        for _ in 0..10 {
            assert_eq!(bucket.take(&pace, start), Duration::ZERO);
        }
        assert_eq!(bucket.take(&pace, start), pace.between);
        assert_eq!(bucket.take(&pace, start), 2 * pace.between);
        let later = start + Duration::from_secs(10);
        for _ in 0..10 {
            assert_eq!(bucket.take(&pace, later), Duration::ZERO);
        }
        assert_eq!(bucket.take(&pace, later), pace.between);
    }

    #[test]
    fn reading_what_says_nothing_takes_a_twentieth_of_the_time_at_most() {
        let pace = Pace::default();
        let milliseconds = Duration::from_millis;
        assert_eq!(pace.rest(milliseconds(2)), milliseconds(40));
        assert_eq!(pace.rest(milliseconds(80)), milliseconds(1_600));
        assert_eq!(pace.rest(milliseconds(500)), pace.longest_rest);
    }

    #[test]
    fn an_answer_is_waited_for_as_long_as_consul_may_hold_it() {
        let pace = Pace::default();
        let seconds = pace.blocked(pace.wait).as_secs_f64();
        assert!((seconds - 73.75).abs() < 0.001, "{seconds}");
    }
}
