//! Size of an event's removal.

/// Number of frontends that an event removes, of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Removal {
    /// So many.
    pub removed: usize,
    /// Of so many.
    pub frontends: usize,
}

impl Removal {
    /// Returns whether it is more than this share, in percent.
    pub(super) const fn exceeds(self, percent: u8) -> bool {
        let Self { removed, frontends } = self;
        removed.saturating_mul(100) > frontends.saturating_mul(percent as usize)
    }

    /// Returns whether it is worth a warning: more than a tenth of all, and not of a few.
    pub(super) const fn is_large(self) -> bool {
        /// Of so few nothing is remarkable.
        const FEW: usize = 10;
        self.removed > FEW && self.exceeds(10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_exceeded_by_more_than_it() {
        let removal = |removed, frontends| Removal { removed, frontends };
        for (removal, percent, exceeds) in [
            (removal(0, 0), 0, false),
            (removal(0, 100), 0, false),
            (removal(1, 100), 0, true),
            (removal(10, 100), 10, false),
            (removal(11, 100), 10, true),
            (removal(100, 100), 100, false),
        ] {
            assert_eq!(removal.exceeds(percent), exceeds, "{removal:?} {percent}");
        }
        assert!(removal(11, 100).is_large());
        assert!(!removal(10, 11).is_large(), "of a few");
        assert!(!removal(100, 1000).is_large());
    }
}
