//! So many a second, evenly.

use std::{
    thread,
    time::{Duration, Instant},
};

/// Least duration of a pause.
const PAUSE: Duration = Duration::from_micros(500);

/// Largest backlog, beyond which packets are forgotten: a machine that is too slow gets what it can
/// do, and no burst after a pause.
const BEHIND: Duration = Duration::from_millis(20);

/// A clock that returns how many are due.
#[derive(Debug)]
pub struct Pace {
    rate: f64,
    until: Instant,
}

impl Pace {
    /// So many a second, from now on.
    pub fn new(rate: u32) -> Self {
        Self {
            rate: f64::from(rate.max(1)),
            until: Instant::now(),
        }
    }

    /// Waits until some are due; returns how many.
    pub fn wait(&mut self) -> u32 {
        let one = Duration::from_secs_f64(1.0 / self.rate);
        thread::sleep(PAUSE.max(one));
        let now = Instant::now();
        let since = self
            .until
            .max(now.checked_sub(BEHIND).unwrap_or(self.until));
        let due = (now.duration_since(since).as_secs_f64() * self.rate) as u32;
        self.until = since + one * due;
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_not_made_up_for() {
        let mut pace = Pace::new(1000);
        thread::sleep(Duration::from_millis(200));
        assert!((1..=25).contains(&pace.wait()));
    }
}
