//! The objects of a kind that cannot be read.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use tracing::warn;

use crate::watch::{item::Unreadable, step::UnreadableObjects};

/// Number of objects that are shown.
const SHOWN: usize = 10;

/// Interval at which the log names one: the authors of objects could fill it.
const PAUSE: Duration = Duration::from_secs(10);

/// The objects of a kind that cannot be read, by name.
#[derive(Debug)]
pub(super) struct Unreadables {
    kind: &'static str,
    reasons: BTreeMap<String, String>,
    /// Number of those of the last list whose name cannot be read.
    nameless: u64,
    last_logged: Option<Instant>,
    /// True if they are others than when they were last asked for.
    has_changed: bool,
}

impl Unreadables {
    /// None yet. `kind`: as the log has it.
    pub(super) const fn new(kind: &'static str) -> Self {
        Self {
            kind,
            reasons: BTreeMap::new(),
            nameless: 0,
            last_logged: None,
            has_changed: false,
        }
    }

    /// These are all that a list has.
    pub(super) fn list(&mut self, all: Vec<Unreadable>) {
        self.has_changed |= !self.is_empty();
        let before = std::mem::take(&mut self.reasons);
        self.nameless = 0;
        for one in all {
            let is_new = one
                .name
                .as_ref()
                .is_none_or(|name| !before.contains_key(name));
            self.insert(one, is_new);
        }
    }

    /// Takes note of one that has changed.
    pub(super) fn add(&mut self, one: Unreadable) {
        let is_new = one
            .name
            .as_ref()
            .is_none_or(|name| !self.reasons.contains_key(name));
        self.insert(one, is_new);
    }

    /// Takes note of an object that can be read, or is gone.
    pub(super) fn remove(&mut self, name: &str) {
        self.has_changed |= self.reasons.remove(name).is_some();
    }

    /// Returns whether every object can be read.
    pub(super) fn is_empty(&self) -> bool {
        self.reasons.is_empty() && self.nameless == 0
    }

    /// Returns the names.
    pub(super) fn names(&self) -> BTreeSet<String> {
        self.reasons.keys().cloned().collect()
    }

    /// Returns what is shown of them, if that has changed since it was last asked for.
    pub(super) fn news(&mut self) -> Option<UnreadableObjects> {
        let has_changed = std::mem::take(&mut self.has_changed);
        has_changed.then(|| self.shown())
    }

    fn shown(&self) -> UnreadableObjects {
        let first = self.reasons.iter().take(SHOWN);
        UnreadableObjects {
            count: self.reasons.len() as u64 + self.nameless,
            first: first
                .map(|(name, reason)| (name.clone(), reason.clone()))
                .collect(),
        }
    }

    fn insert(&mut self, one: Unreadable, is_new: bool) {
        let Unreadable {
            name,
            version: _,
            reason,
        } = one;
        let kind = self.kind;
        self.has_changed = true;
        if is_new && self.last_logged.is_none_or(|last| last.elapsed() >= PAUSE) {
            self.last_logged = Some(Instant::now());
            let name = name.as_deref().unwrap_or("without a readable name");
            warn!(
                "one of the {kind} cannot be read, so what is known of it stays: {name}: {reason}. `shunt status` \
                 names all of them"
            );
        }
        match name {
            Some(name) => drop(self.reasons.insert(name, reason)),
            None => self.nameless += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unreadable(name: Option<&str>) -> Unreadable {
        Unreadable {
            name: name.map(str::to_owned),
            version: None,
            reason: "spec: bad".to_owned(),
        }
    }

    #[test]
    fn each_is_known_until_it_can_be_read_or_is_not_listed() {
        let mut known = Unreadables::new("Services");
        known.list(vec![unreadable(Some("a/one")), unreadable(None)]);
        known.add(unreadable(Some("a/two")));
        known.add(unreadable(Some("a/two")));
        let shown = known.news().unwrap();
        assert_eq!(known.news(), None, "nothing has changed");
        assert_eq!(shown.count, 3);
        let names = shown.first.iter().map(|(name, _)| name.as_str());
        assert_eq!(names.collect::<Vec<_>>(), ["a/one", "a/two"]);
        known.remove("a/two");
        assert_eq!(known.news().map(|shown| shown.count), Some(2));
        known.remove("a/two");
        assert_eq!(known.news(), None);
        known.list(Vec::new());
        assert!(known.is_empty());
        assert_eq!(known.news(), Some(UnreadableObjects::default()));
        known.list(Vec::new());
        assert_eq!(known.news(), None);
    }

    #[test]
    fn no_more_are_shown_than_somebody_reads() {
        let mut known = Unreadables::new("Services");
        known.list(
            (0..100_000)
                .map(|n| unreadable(Some(&n.to_string())))
                .collect(),
        );
        let shown = known.news().unwrap();
        assert_eq!((shown.count, shown.first.len()), (100_000, SHOWN));
    }
}
