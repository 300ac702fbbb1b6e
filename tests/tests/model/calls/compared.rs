//! What cases have come to.

use std::{collections::BTreeMap, ops::AddAssign};

/// What a case has come to.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    pub calls: u64,
    /// How many had one outcome only, by what is in the tables.
    pub certain: u64,
    /// How many there were of each call, kind of socket, and outcome.
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
