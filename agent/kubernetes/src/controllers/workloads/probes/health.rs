//! Number of looks of one kind in a row that it takes: a kubelet's thresholds.

use crate::objects::readiness_probe::Thresholds;

/// Result of the looks at a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Health {
    /// Result of the last look, and how many in a row have had it.
    last: Option<bool>,
    run: u32,
    /// Conclusion from them; `None`: nothing yet.
    is_ready: Option<bool>,
}

impl Health {
    /// Adds a look that went well, or did not. Returns whether it is ready now, if that was not known or
    /// otherwise before.
    pub(super) fn add(&mut self, is_good: bool, thresholds: Thresholds) -> Option<bool> {
        self.run = if self.last == Some(is_good) {
            self.run.saturating_add(1)
        } else {
            1
        };
        self.last = Some(is_good);
        let enough = if is_good {
            thresholds.success
        } else {
            thresholds.failure
        };
        if self.run < enough || self.is_ready == Some(is_good) {
            return None;
        }
        self.is_ready = Some(is_good);
        self.is_ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows the effect of each look of a row: `+` it is ready now, `-` it is not any more, `.` nothing new.
    fn row(looks: &str, success: u32, failure: u32) -> String {
        let mut health = Health::default();
        let thresholds = Thresholds { success, failure };
        let looks = looks.chars().map(|look| look == 'g');
        let follows = looks.map(|is_good| match health.add(is_good, thresholds) {
            Some(true) => '+',
            Some(false) => '-',
            None => '.',
        });
        follows.collect()
    }

    #[test]
    fn so_many_looks_in_a_row_count_and_only_what_changes_is_said() {
        for (what, looks, success, failure, expected) in [
            ("the first good one", "ggg", 1, 3, "+.."),
            ("the third bad one", "bbbb", 1, 3, "..-."),
            ("one and another one", "gbbgbbbg", 1, 3, "+.....-+"),
            ("the second good one", "gbggb", 2, 1, ".-.+-"),
            ("it never stays", "gbgbgb", 2, 2, "......"),
            ("each counts", "gbgb", 1, 1, "+-+-"),
            ("bad ones do not add up", "gbbgbbg", 1, 3, "+......"),
            ("it is well again at once", "bbbg", 1, 3, "..-+"),
        ] {
            assert_eq!(row(looks, success, failure), expected, "{what}: {looks}");
        }
    }

    #[test]
    fn a_row_may_be_longer_than_anybody_counts() {
        let mut health = Health {
            last: Some(false),
            run: u32::MAX,
            is_ready: Some(false),
        };
        let thresholds = Thresholds {
            success: 1,
            failure: 3,
        };
        assert_eq!(health.add(false, thresholds), None);
        assert_eq!(health.add(true, thresholds), Some(true));
    }
}
