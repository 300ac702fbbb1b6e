//! The wait before the next try.

use std::{
    hash::{BuildHasher as _, RandomState},
    time::Duration,
};

/// After the second end in a row of what had not failed; after the first there is none.
const FIRST: Duration = Duration::from_millis(200);

/// After the first error, as client-go's reflectors have it.
const FIRST_AFTER_ERROR: Duration = Duration::from_millis(800);

/// At most, unless the server asks for more.
const LONGEST: Duration = Duration::from_secs(10);

/// The longest that a server's wish is followed.
const WISH: Duration = Duration::from_mins(1);

/// Doubles the time with each failure. Each agent waits another while, so that those of a cluster do not
/// come back all at once.
#[derive(Debug)]
pub(crate) struct Backoff {
    /// Zero after what has worked.
    next: Duration,
    random: RandomState,
}

impl Backoff {
    /// With no failure yet.
    pub(crate) fn new() -> Self {
        Self {
            next: Duration::ZERO,
            random: RandomState::new(),
        }
    }

    /// It has worked.
    pub(crate) const fn reset(&mut self) {
        self.next = Duration::ZERO;
    }

    /// Returns the time to wait after what ended without an error: none at first, and then between a half
    /// and all of a time that doubles.
    pub(crate) fn pause(&mut self) -> Duration {
        let (half, random) = self.spread();
        half + random
    }

    /// Returns the time to wait after an error: between a half and all of a time that doubles, or somewhat
    /// more than the server wishes, whichever is longer.
    pub(crate) fn pause_after_error(&mut self, wish: Option<Duration>) -> Duration {
        self.next = self.next.max(FIRST_AFTER_ERROR);
        let (half, random) = self.spread();
        half.max(wish.unwrap_or_default().min(WISH)) + random
    }

    /// A half of the time to wait now, and a random part of the other half.
    fn spread(&mut self) -> (Duration, Duration) {
        let most = self.next;
        self.next = (most * 2).clamp(FIRST, LONGEST);
        let spread = most.as_millis() as u64 / 2;
        let random = self.random.hash_one(most) % (spread + 1);
        self.random = RandomState::new();
        (most / 2, Duration::from_millis(random))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_time_doubles_up_to_a_limit_and_starts_anew() {
        let mut backoff = Backoff::new();
        for _ in 0..2 {
            assert_eq!(backoff.pause(), Duration::ZERO);
            let mut most = FIRST;
            for _ in 0..10 {
                let pause = backoff.pause();
                assert!((most / 2..=most).contains(&pause), "{pause:?} of {most:?}");
                most = (most * 2).min(LONGEST);
            }
            assert_eq!(most, LONGEST);
            backoff.reset();
        }
    }

    #[test]
    fn the_first_pause_after_an_error_differs_from_agent_to_agent() {
        let pauses = (0..50).map(|_| Backoff::new().pause_after_error(None));
        let pauses: BTreeSet<Duration> = pauses.collect();
        let within = FIRST_AFTER_ERROR / 2..=FIRST_AFTER_ERROR;
        assert!(
            pauses.iter().all(|pause| within.contains(pause)),
            "{pauses:?}"
        );
        assert!(pauses.len() > 10, "{pauses:?}");
    }

    #[test]
    fn a_servers_wish_is_followed_within_bounds_by_each_agent_at_another_time() {
        let wish = Duration::from_secs(7);
        let pauses = (0..50).map(|_| Backoff::new().pause_after_error(Some(wish)));
        let pauses: BTreeSet<Duration> = pauses.collect();
        let within = wish..=wish + FIRST_AFTER_ERROR / 2;
        assert!(
            pauses.iter().all(|pause| within.contains(pause)),
            "{pauses:?}"
        );
        assert!(pauses.len() > 10, "{pauses:?}");
        let longest = Backoff::new().pause_after_error(Some(WISH * 10));
        assert!(longest <= WISH + FIRST_AFTER_ERROR / 2, "{longest:?}");
    }
}
