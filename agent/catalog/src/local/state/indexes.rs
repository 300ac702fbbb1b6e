//! The numbers of changes, by which clients wait for the next one.

use std::collections::{BTreeMap, BTreeSet};

use crate::local::state::{
    definitions::Definitions,
    effects::{Effects, Subject},
};

/// Indexes of the creation and of the last change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Index {
    /// The number of the change by which it came.
    pub created: u64,
    /// That of the last one.
    pub modified: u64,
}

/// The numbers of the last changes. Each change has a number above all before it.
#[derive(Debug, Clone)]
pub struct Indexes {
    /// That of the start.
    first: u64,
    /// That of the last change.
    latest: u64,
    /// That of the last change of a service's content.
    services: u64,
    /// That of the last change by which a name was left without a service.
    gone: u64,
    /// By names under which services are found, in lower case.
    names: BTreeMap<String, Index>,
}

impl Default for Indexes {
    fn default() -> Self {
        Self::starting_at(1)
    }
}

impl Indexes {
    /// Numbers from `first` on. If that is above all numbers of the agent before, clients that wait with one
    /// of those are answered.
    pub(crate) const fn starting_at(first: u64) -> Self {
        Self {
            first,
            latest: first,
            services: first,
            gone: first,
            names: BTreeMap::new(),
        }
    }

    /// The number of the last change of a part.
    pub fn of(&self, subject: &Subject) -> u64 {
        match subject {
            Subject::Nodes => self.first,
            Subject::Services => self.services,
            Subject::All => self.latest,
            Subject::Name(name) => self.names.get(name).map_or(self.gone, |it| it.modified),
        }
    }

    /// Returns whether a client that has seen `index` has something to read. One that has seen what there is not yet
    /// has it from an agent before.
    pub(crate) fn is_news(&self, subject: &Subject, index: u64) -> bool {
        self.of(subject) > index || index > self.latest
    }

    /// Returns the indexes of the creation and the change of a name's services.
    pub fn of_name(&self, name: &str) -> Index {
        let index = self.names.get(&name.to_lowercase());
        index.copied().unwrap_or(Index {
            created: self.first,
            modified: self.gone,
        })
    }

    /// Returns the indexes at which the node's own checks may have changed.
    pub const fn of_node_checks(&self) -> Index {
        Index {
            created: self.first,
            modified: self.latest,
        }
    }

    /// Returns the indexes at which the node came.
    pub const fn of_node(&self) -> Index {
        Index {
            created: self.first,
            modified: self.first,
        }
    }

    /// Counts a change, if these are effects that clients see.
    pub(super) fn count(&mut self, effects: &Effects) {
        if !effects.is_seen() {
            return;
        }
        self.latest += 1;
        let latest = self.latest;
        if !effects.changed.is_empty() {
            self.services = latest;
        }
        for name in &effects.concerned {
            let new = Index {
                created: latest,
                modified: latest,
            };
            let index = self.names.entry(name.to_lowercase()).or_insert(new);
            index.modified = latest;
        }
    }

    /// Forgets the names that no service has any more.
    pub(super) fn forget(&mut self, known: &Definitions) {
        let services = known.services();
        let names = services.flat_map(|it| it.service.found_as().map(str::to_lowercase));
        let there: BTreeSet<String> = names.collect();
        let before = self.names.len();
        self.names.retain(|name, _| there.contains(name));
        if self.names.len() != before {
            self.gone = self.latest;
        }
    }
}
