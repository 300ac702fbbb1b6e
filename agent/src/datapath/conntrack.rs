//! The connections of one family: their clock, and what becomes of those that are over.

use std::{io, os::fd::AsFd as _};

use aya::maps::{HashMap, IterableMap as _, MapData, MapError};
use shunt_common::{ConntrackEntry, ConntrackKey, Direction, Family};

use super::{
    batch::BatchReader,
    lifetime::{Phase, Timeouts},
    raw::Raw,
    shared_array::SharedArray,
};

/// The conntrack table of one family and the clock that its entries are dated by.
pub struct Conntrack<F: Family> {
    entries: HashMap<MapData, Raw<ConntrackKey<F>>, Raw<ConntrackEntry<F>>>,
    clock: SharedArray<u32>,
}

/// What a sweep has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Swept {
    /// Entries that stay.
    pub kept: usize,
    /// Entries that were removed.
    pub removed: usize,
}

impl<F: Family> Conntrack<F> {
    /// Over the table and the clock.
    pub(super) const fn new(
        entries: HashMap<MapData, Raw<ConntrackKey<F>>, Raw<ConntrackEntry<F>>>,
        clock: SharedArray<u32>,
    ) -> Self {
        Self { entries, clock }
    }

    /// Lets `seconds` pass on the clock. It stands still while no agent runs, so that no
    /// connection ages for want of one.
    pub fn advance(&mut self, seconds: u32) {
        self.clock
            .write(0, self.clock.read(0).wrapping_add(seconds));
    }

    /// Whether no connection is remembered.
    ///
    /// # Errors
    ///
    /// If the kernel refuses to read.
    pub fn is_empty(&self) -> io::Result<bool> {
        match self.entries.keys().next() {
            None => Ok(true),
            Some(Ok(_)) => Ok(false),
            Some(Err(error)) => absent(error).map(|()| true),
        }
    }

    /// The clock.
    pub(super) fn now(&self) -> u32 {
        self.clock.read(0)
    }

    /// The table.
    pub(super) fn map(&self) -> &MapData {
        self.entries.map()
    }

    /// Removes the connections that have been silent for longer than `timeouts` say, both of
    /// their entries.
    ///
    /// # Errors
    ///
    /// If the kernel refuses to read or remove; what was removed until then stays so.
    pub fn sweep(&mut self, timeouts: &Timeouts) -> io::Result<Swept> {
        let now = self.clock.read(0);
        let mut swept = Swept::default();
        let mut reader = BatchReader::<ConntrackKey<F>, ConntrackEntry<F>>::new();
        loop {
            let map = self.entries.map().fd().as_fd();
            let (keys, entries, last) = reader.next_piece(map)?;
            for (key, entry) in keys.iter().zip(entries) {
                // Most entries are young, and need no look at their other half.
                if now.wrapping_sub(entry.last_seen) <= timeouts.shortest() {
                    swept.kept += 1;
                    continue;
                }
                let connection = Connection::of(key, entry, |key| self.get(key))?;
                if connection.other.is_none() && self.get(key)?.is_none() {
                    // It went with its other half.
                    continue;
                }
                if connection.silent(now) <= timeouts.of(connection.phase()) {
                    swept.kept += 1;
                    continue;
                }
                for (key, entry) in [Some((*key, *entry)), connection.other]
                    .into_iter()
                    .flatten()
                {
                    swept.removed += usize::from(self.remove(&key, &entry)?);
                }
            }
            if last {
                return Ok(swept);
            }
        }
    }

    /// Removes the entry unless a packet came since it was read.
    fn remove(&mut self, key: &ConntrackKey<F>, entry: &ConntrackEntry<F>) -> io::Result<bool> {
        if self.get(key)?.is_none_or(|now| now != *entry) {
            return Ok(false);
        }
        match self.entries.remove(&Raw(*key)) {
            Ok(()) => Ok(true),
            Err(error) => absent(error).map(|()| false),
        }
    }

    pub(super) fn get(&self, key: &ConntrackKey<F>) -> io::Result<Option<ConntrackEntry<F>>> {
        match self.entries.get(&Raw(*key), 0) {
            Ok(Raw(entry)) => Ok(Some(entry)),
            Err(error) => absent(error).map(|()| None),
        }
    }
}

/// One entry and, if it is still there, the other one of its connection.
pub(super) struct Connection<F: Family> {
    key: ConntrackKey<F>,
    entry: ConntrackEntry<F>,
    pub(super) other: Option<(ConntrackKey<F>, ConntrackEntry<F>)>,
}

impl<F: Family> Connection<F> {
    /// The connection that `entry` at `key` belongs to, the other half found by `get`.
    pub(super) fn of(
        key: &ConntrackKey<F>,
        entry: &ConntrackEntry<F>,
        get: impl Fn(&ConntrackKey<F>) -> io::Result<Option<ConntrackEntry<F>>>,
    ) -> io::Result<Self> {
        let direction = if key.direction == Direction::Forward as u8 {
            Direction::Reply
        } else {
            Direction::Forward
        };
        let other = ConntrackKey::new(entry.translated.reversed(), key.protocol, direction);
        // A client that uses its port elsewhere has taken the reply's entry with it.
        let found = get(&other)?.filter(|found| found.translated.reversed() == key.tuple);
        Ok(Self {
            key: *key,
            entry: *entry,
            other: found.map(|found| (other, found)),
        })
    }

    pub(super) fn phase(&self) -> Phase {
        let (own, other) = (
            self.entry.seen,
            self.other.map_or(0, |(_, other)| other.seen),
        );
        if self.key.direction == Direction::Forward as u8 {
            Phase::of(self.key.protocol, own, other)
        } else {
            Phase::of(self.key.protocol, other, own)
        }
    }

    /// For how many seconds neither direction has had a packet.
    pub(super) fn silent(&self, now: u32) -> u32 {
        let since = |entry: &ConntrackEntry<F>| now.wrapping_sub(entry.last_seen);
        let own = since(&self.entry);
        self.other.map_or(own, |(_, other)| own.min(since(&other)))
    }
}

/// An entry that is not there is no error.
fn absent(error: MapError) -> io::Result<()> {
    match error {
        MapError::KeyNotFound => Ok(()),
        MapError::SyscallError(error) if error.io_error.kind() == io::ErrorKind::NotFound => Ok(()),
        MapError::SyscallError(error) => Err(error.io_error),
        other => Err(io::Error::other(other)),
    }
}
