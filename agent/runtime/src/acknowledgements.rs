//! The log of events: a line for each that changes something, and a summary of those beyond what
//! a person reads.

use std::{
    fmt,
    time::{Duration, Instant},
};

/// So many lines are logged in a [`WINDOW`].
const LINES: u32 = 10;

/// In so much time.
const WINDOW: Duration = Duration::from_secs(1);

/// Summary of the events that have no line of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Summary {
    pub(super) events: u64,
    pub(super) added: u64,
    pub(super) changed: u64,
    pub(super) removed: u64,
    pub(super) writes: u64,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            events,
            added,
            changed,
            removed,
            writes,
        } = self;
        write!(
            f,
            "{events} more events were applied: {added} added, {changed} changed, {removed} \
             removed, {writes} writes (at most {LINES} a second are logged one by one)"
        )
    }
}

/// Decides what is logged.
#[derive(Debug)]
pub(super) struct Acknowledgements {
    /// Since when lines are counted.
    since: Instant,
    lines: u32,
    left_out: Summary,
}

impl Acknowledgements {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            since: now,
            lines: 0,
            left_out: Summary {
                events: 0,
                added: 0,
                changed: 0,
                removed: 0,
                writes: 0,
            },
        }
    }

    /// Returns whether a line may be logged now. Otherwise its content goes into the summary, by
    /// [`Self::leave_out`].
    pub(super) fn has_room(&mut self, now: Instant) -> bool {
        // The summary of a window comes before the first line of the next.
        if self.left_out == Summary::default() && now.duration_since(self.since) >= WINDOW {
            self.since = now;
            self.lines = 0;
        }
        let has_room = self.lines < LINES;
        self.lines += u32::from(has_room);
        has_room
    }

    /// Returns the summary, to be added to.
    pub(super) const fn leave_out(&mut self) -> &mut Summary {
        &mut self.left_out
    }

    /// Time at which the summary is due; `None` if it is empty.
    pub(super) fn due(&self) -> Option<Instant> {
        (self.left_out != Summary::default()).then(|| self.since + WINDOW)
    }

    /// The summary, if it is due; another second begins.
    pub(super) fn take(&mut self, now: Instant) -> Option<Summary> {
        self.due().filter(|due| now >= *due)?;
        let taken = self.left_out;
        *self = Self::new(now);
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_lines_a_second_and_then_a_summary() {
        let start = Instant::now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let mut lines = Acknowledgements::new(start);
        let logged = (0..25).filter(|_| {
            let has_room = lines.has_room(at(100));
            if !has_room {
                lines.leave_out().events += 1;
            }
            has_room
        });
        assert_eq!(logged.count(), 10);
        assert_eq!(lines.due(), Some(at(1000)));
        assert_eq!(lines.take(at(999)), None);
        let summary = lines.take(at(1000)).unwrap();
        assert_eq!(summary.events, 15);
        assert_eq!(lines.due(), None);
        assert!(lines.has_room(at(1001)), "another second");

        let mut quiet = Acknowledgements::new(start);
        for second in 0..5 {
            for line in 0..10 {
                assert!(quiet.has_room(at(second * 1000 + line)));
            }
        }
        assert_eq!(quiet.take(at(9000)), None);
    }
}
