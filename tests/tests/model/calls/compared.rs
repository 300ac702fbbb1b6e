//! Results of cases.

use std::{collections::BTreeMap, ops::AddAssign};

/// Results of a case.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    pub calls: u64,
    /// Number of calls that had one outcome only, by what is in the tables.
    pub certain: u64,
    /// Numbers of calls of each kind of call, kind of socket, and outcome.
    pub kinds: BTreeMap<String, u64>,
}

impl AddAssign for Compared {
    fn add_assign(&mut self, other: Self) {
        let Self {
            calls,
            certain,
            kinds,
        } = other;
        self.calls += calls;
        self.certain += certain;
        for (kind, count) in kinds {
            *self.kinds.entry(kind).or_default() += count;
        }
    }
}
