//! The frontends that events change while the tables are read.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
};

use shunt_model::FrontendKey;

/// A change that readers have to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Noted {
    /// The frontend with this key.
    Frontend(FrontendKey),
    /// Whatever is in the tables.
    All,
}

/// The log of changes. It grows only while there is a reader.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    /// Shared by all readers.
    readers: Arc<()>,
    /// Position of the first entry.
    first: u64,
    entries: VecDeque<Noted>,
}

/// A position in the log. The log goes on from there as long as this exists.
#[derive(Debug, Clone)]
pub(crate) struct Position {
    pub(super) number: u64,
    _reader: Arc<()>,
}

/// The changes from a position on.
#[derive(Debug)]
pub(super) struct Since {
    is_all: bool,
    keys: HashSet<FrontendKey>,
}

impl Journal {
    /// Returns the position of the next entry.
    pub(super) fn end(&self) -> Position {
        Position {
            number: self.first + self.entries.len() as u64,
            _reader: Arc::clone(&self.readers),
        }
    }

    /// Logs that an event has changed frontends.
    pub(crate) fn note(&mut self, changed: impl Iterator<Item = FrontendKey>) {
        self.enter(changed.map(Noted::Frontend));
    }

    /// Logs that anything may have changed.
    pub(crate) fn note_all(&mut self) {
        self.enter([Noted::All].into_iter());
    }

    fn enter(&mut self, changes: impl Iterator<Item = Noted>) {
        let is_read = Arc::strong_count(&self.readers) > 1;
        if is_read {
            self.entries.extend(changes);
        } else {
            self.first += self.entries.len() as u64;
            self.entries = VecDeque::new();
        }
    }

    /// The entries from this position on, each with its position.
    pub(super) fn from(&self, position: u64) -> impl Iterator<Item = (u64, Noted)> {
        let skipped = position.saturating_sub(self.first);
        let entries = self.entries.iter().skip(skipped as usize).copied();
        (position.max(self.first)..).zip(entries)
    }

    /// All changes from this position on.
    pub(super) fn since(&self, position: &Position) -> Since {
        let mut since = Since {
            is_all: false,
            keys: HashSet::new(),
        };
        for (_, noted) in self.from(position.number) {
            match noted {
                Noted::Frontend(key) => drop(since.keys.insert(key)),
                Noted::All => since.is_all = true,
            }
        }
        since
    }
}

impl Since {
    /// Returns whether the frontend may have changed.
    pub(super) fn concerns(&self, key: &FrontendKey) -> bool {
        self.is_all || self.keys.contains(key)
    }
}

#[cfg(test)]
mod tests {
    use shunt_model::Protocol;

    use super::*;

    fn key(port: u16) -> FrontendKey {
        FrontendKey {
            address: [10, 96, 0, 1].into(),
            port,
            protocol: Protocol::Tcp,
        }
    }

    #[test]
    fn the_log_grows_only_while_somebody_reads() {
        let mut journal = Journal::default();
        journal.note([key(1)].into_iter());
        assert!(journal.entries.is_empty(), "nobody reads");
        let position = journal.end();
        journal.note([key(2), key(3)].into_iter());
        let entries: Vec<_> = journal
            .from(position.number)
            .map(|(_, noted)| noted)
            .collect();
        assert_eq!(entries, [key(2), key(3)].map(Noted::Frontend));
        let later = journal.end();
        drop(position);
        journal.note([key(4)].into_iter());
        let entries: Vec<_> = journal.from(later.number).collect();
        assert_eq!(entries, [(later.number, Noted::Frontend(key(4)))]);
        assert!(!journal.since(&later).concerns(&key(3)));
        journal.note_all();
        assert!(journal.since(&later).concerns(&key(3)));
        drop(later);
        journal.note_all();
        assert!(journal.entries.is_empty(), "the last reader is gone");
    }
}
