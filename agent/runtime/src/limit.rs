//! Rate limit of messages that objects of users cause, which may be many: Events, and lines of the log.

use std::time::{Duration, Instant};

/// So many at once, as client-go has it for the Events of an object; here for all of them.
const BURST: u32 = 25;

/// After these, one more in this time.
const EVERY: Duration = Duration::from_secs(10);

/// A bucket of tokens, one for each Event or line.
#[derive(Debug)]
pub struct Limit {
    tokens: u32,
    /// Time at which the last token came, or would have.
    filled: Instant,
}

impl Limit {
    /// A full one.
    pub const fn new(now: Instant) -> Self {
        Self {
            tokens: BURST,
            filled: now,
        }
    }

    /// Returns whether there is a token at `now`; it is taken then.
    pub fn take(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.filled);
        let new = passed.as_nanos() / EVERY.as_nanos();
        match u32::try_from(new) {
            Ok(new) if new < BURST - self.tokens => {
                self.tokens += new;
                self.filled += EVERY * new;
            }
            _ => *self = Self::new(now),
        }
        let is_there = self.tokens > 0;
        self.tokens -= u32::from(is_there);
        is_there
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_burst_there_is_one_each_ten_seconds() {
        let start = Instant::now();
        let mut limit = Limit::new(start);
        let mut taken = |seconds: u64| {
            let now = start + Duration::from_secs(seconds);
            (0..100).filter(|_| limit.take(now)).count()
        };
        assert_eq!(taken(0), 25);
        assert_eq!(taken(9), 0);
        assert_eq!(taken(10), 1);
        assert_eq!(taken(45), 3);
        assert_eq!(taken(50), 1, "none is lost in between");
        assert_eq!(taken(100_000), 25, "never more than a burst");
    }
}
