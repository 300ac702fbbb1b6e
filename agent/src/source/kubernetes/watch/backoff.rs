//! How long to wait before the next try.

use std::{
    hash::{BuildHasher as _, RandomState},
    time::Duration,
};

/// After the second failure in a row; after the first there is none.
const FIRST: Duration = Duration::from_millis(200);

/// At most, unless the server asks for more.
const LONGEST: Duration = Duration::from_secs(10);

/// The longest that a server's wish is followed.
const WISH: Duration = Duration::from_mins(1);

/// Doubles the time with each failure but the first. Each agent waits another while, so that those of a cluster do
/// not come back all at once.
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

    /// How long to wait now: between a half and all of the time, and not shorter than the server
    /// wishes.
    pub(crate) fn pause(&mut self, wish: Option<Duration>) -> Duration {
        let most = self.next;
        self.next = (most * 2).clamp(FIRST, LONGEST);
        let spread = most.as_millis() as u64 / 2;
        let random = self.random.hash_one(most) % (spread + 1);
        self.random = RandomState::new();
        let pause = most / 2 + Duration::from_millis(random);
        pause.max(wish.unwrap_or_default().min(WISH))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_doubles_up_to_a_limit_and_starts_anew() {
        let mut backoff = Backoff::new();
        for _ in 0..2 {
            assert_eq!(backoff.pause(None), Duration::ZERO);
            let mut most = FIRST;
            for _ in 0..10 {
                let pause = backoff.pause(None);
                assert!((most / 2..=most).contains(&pause), "{pause:?} of {most:?}");
                most = (most * 2).min(LONGEST);
            }
            assert_eq!(most, LONGEST);
            backoff.reset();
        }
    }

    #[test]
    fn a_servers_wish_is_followed_within_bounds() {
        let mut backoff = Backoff::new();
        let wish = Duration::from_secs(7);
        assert_eq!(backoff.pause(Some(wish)), wish);
        assert_eq!(backoff.pause(Some(WISH * 10)), WISH);
    }
}
