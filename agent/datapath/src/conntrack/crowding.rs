//! Warnings in the log while a table is crowded.

use std::time::{Duration, Instant};

/// Shortest time between two warnings.
const INTERVAL: Duration = Duration::from_mins(1);

/// State of the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Load {
    /// True if one is in use for more than three quarters.
    pub(crate) is_busy: bool,
    /// Connections that were dropped before their time, so far.
    pub(crate) early_drops: u64,
    /// Packets of new connections for which there was no room, so far.
    pub(crate) refused: u64,
    /// Packets of new connections of clients with more than their share, so far.
    pub(crate) over_share: u64,
}

/// Events since the last warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Warning {
    /// Connections that were dropped before their time.
    pub(crate) early_drops: u64,
    /// Packets of new connections for which there was no room.
    pub(crate) refused: u64,
    /// Packets of new connections of clients with more than their share.
    pub(crate) over_share: u64,
}

/// A limit on warnings, of one an interval.
#[derive(Debug)]
pub(crate) struct Crowding {
    warned: Option<Instant>,
    /// As it was at the last warning, or at the begin.
    before: Load,
}

impl Crowding {
    /// Counters go on from earlier agents': what they count from here on is ours.
    pub(crate) const fn new(before: Load) -> Self {
        Self {
            warned: None,
            before,
        }
    }

    /// Returns the warning that is due, if any, now that the tables are so.
    pub(crate) fn note(&mut self, load: Load, now: Instant) -> Option<Warning> {
        let early_drops = load.early_drops.saturating_sub(self.before.early_drops);
        let refused = load.refused.saturating_sub(self.before.refused);
        let over_share = load.over_share.saturating_sub(self.before.over_share);
        let is_time = self
            .warned
            .is_none_or(|warned| now.duration_since(warned) >= INTERVAL);
        if !is_time || !load.is_busy && refused == 0 && over_share == 0 {
            return None;
        }
        self.warned = Some(now);
        self.before = load;
        Some(Warning {
            early_drops,
            refused,
            over_share,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(is_busy: bool, early_drops: u64, refused: u64) -> Load {
        Load {
            is_busy,
            early_drops,
            refused,
            over_share: 0,
        }
    }

    #[test]
    fn a_crowded_table_is_said_once_a_minute_with_what_came_of_it() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let warning = |early_drops, refused| {
            Some(Warning {
                early_drops,
                refused,
                over_share: 0,
            })
        };
        let mut crowding = Crowding::new(load(false, 100, 10));
        assert_eq!(crowding.note(load(false, 105, 10), at(0)), None, "calm");
        assert_eq!(crowding.note(load(true, 105, 10), at(10)), warning(5, 0));
        assert_eq!(crowding.note(load(true, 106, 12), at(20)), None, "just now");
        assert_eq!(crowding.note(load(false, 107, 12), at(70)), warning(2, 2));
        assert_eq!(crowding.note(load(false, 108, 12), at(140)), None, "calm");
        assert_eq!(
            crowding.note(load(false, 0, 0), at(200)),
            None,
            "began anew"
        );
        let over_share = Load {
            over_share: 3,
            ..load(false, 0, 0)
        };
        let warned = crowding.note(over_share, at(260));
        assert_eq!(warned.map(|warning| warning.over_share), Some(3));
    }
}
