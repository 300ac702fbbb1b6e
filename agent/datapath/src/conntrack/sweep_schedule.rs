//! When the conntrack table is swept.

/// Says at each tick whether a sweep is due: each `interval` seconds, and at once where the table
/// may have come to be busy since the last one.
#[derive(Debug)]
pub(crate) struct SweepSchedule {
    /// Seconds.
    interval: u32,
    /// Beyond so many entries the table is busy.
    busy: usize,
    /// Seconds since the last sweep.
    since: u32,
    /// Entries that were there after it.
    used: usize,
    /// Connections that had been opened until then.
    opened: u64,
}

impl SweepSchedule {
    /// Begins with a sweep that is due at once, for a pinned table is as full as it was left.
    pub(crate) const fn new(interval: u32, busy: usize) -> Self {
        Self {
            interval,
            busy,
            since: interval,
            used: 0,
            opened: 0,
        }
    }

    /// Whether a sweep is due, after `seconds` more; `opened` is how many connections the programs
    /// have counted so far. Each may have taken two entries, so a table that fills faster than the
    /// interval lets one see is noticed all the same.
    pub(crate) fn is_due(&mut self, seconds: u32, opened: u64) -> bool {
        self.since = self.since.saturating_add(seconds);
        let new = usize::try_from(opened.saturating_sub(self.opened)).unwrap_or(usize::MAX);
        let used = self.used.saturating_add(new.saturating_mul(2));
        self.since >= self.interval || used > self.busy
    }

    /// A sweep has left `used` entries; `opened` as it was before the sweep.
    pub(crate) const fn swept(&mut self, used: usize, opened: u64) {
        self.since = 0;
        self.used = used;
        self.opened = opened;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_calm_table_is_swept_each_interval() {
        let mut schedule = SweepSchedule::new(10, 750);
        assert!(schedule.is_due(1, 500), "at the beginning");
        schedule.swept(700, 500);
        let due: Vec<u32> = (1..=10).filter(|_| schedule.is_due(1, 525)).collect();
        assert_eq!(due, [10]);
        schedule.swept(0, 525);
        assert!(schedule.is_due(12, 525), "a late tick counts whole");
    }

    #[test]
    fn a_busy_table_is_swept_at_each_tick() {
        let mut schedule = SweepSchedule::new(10, 750);
        schedule.swept(751, 0);
        assert!(schedule.is_due(1, 0), "it was busy after the last sweep");
        schedule.swept(100, 1000);
        assert!(!schedule.is_due(1, 1325), "750 entries at most");
        assert!(schedule.is_due(1, 1326), "752 entries perhaps");
        schedule.swept(100, 1326);
        assert!(!schedule.is_due(1, 7), "counters that began anew");
    }
}
