//! The connections of one family, and what becomes of those that are over.

use std::{io, os::fd::AsFd as _};

use aya::maps::{HashMap, IterableMap as _, MapData, MapError};
use shunt_common::{ConntrackEntry, ConntrackKey, Direction, Family};

use crate::{
    conntrack::{
        connection::Connection,
        early_drops::EarlyDrops,
        headroom::{self, BUSY, CROWDED, Candidate, Rank},
        lifetime::Timeouts,
        swept::Swept,
    },
    sys::{batch::BatchReader, raw::Raw},
};

/// Of `linux/bpf.h`: only if there is none.
const BPF_NOEXIST: u64 = 1;

/// The conntrack table of one family.
#[derive(Debug)]
pub(crate) struct ConntrackTable<F: Family> {
    entries: HashMap<MapData, Raw<ConntrackKey<F>>, Raw<ConntrackEntry<F>>>,
    capacity: u32,
    early_drops: EarlyDrops,
}

impl<F: Family> ConntrackTable<F> {
    /// Over the table; what is removed for room is counted in `early_drops`.
    pub(crate) fn new(
        entries: HashMap<MapData, Raw<ConntrackKey<F>>, Raw<ConntrackEntry<F>>>,
        early_drops: EarlyDrops,
    ) -> Result<Self, MapError> {
        Ok(Self {
            capacity: entries.map().info()?.max_entries(),
            entries,
            early_drops,
        })
    }

    /// How many entries the table has room for; a connection takes two.
    pub(crate) const fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Beyond how many entries the table is to be swept each second.
    pub(crate) const fn busy(&self) -> usize {
        BUSY.of(self.capacity)
    }

    /// Whether no connection is remembered.
    ///
    /// # Errors
    ///
    /// If the kernel refuses to read.
    pub(crate) fn is_empty(&self) -> io::Result<bool> {
        match self.entries.keys().next() {
            None => Ok(true),
            Some(Ok(_)) => Ok(false),
            Some(Err(error)) => absent(error).map(|()| true),
        }
    }

    /// The table.
    pub(crate) fn map(&self) -> &MapData {
        self.entries.map()
    }

    /// Removes the connections that have been silent for longer than `timeouts` say, both of
    /// their entries; the clock shows `now`. If the table is still crowded, others make room, as [`headroom`] says.
    ///
    /// # Errors
    ///
    /// If the kernel refuses to read or remove; what was removed until then stays so.
    pub(crate) fn sweep(&mut self, now: u32, timeouts: &Timeouts) -> io::Result<Swept> {
        let mut swept = self.remove_silent(now, timeouts)?;
        if swept.kept > CROWDED.of(self.capacity) {
            let (connections, entries) = self.make_room(now, swept.kept - self.busy())?;
            swept.early_drops = connections;
            swept.kept -= entries.min(swept.kept);
            self.early_drops.add(connections);
        }
        Ok(swept)
    }

    /// Removes what has been silent for too long.
    fn remove_silent(&mut self, now: u32, timeouts: &Timeouts) -> io::Result<Swept> {
        let mut swept = Swept::default();
        let mut reader = BatchReader::<ConntrackKey<F>, ConntrackEntry<F>>::new();
        loop {
            let map = self.entries.map().fd().as_fd();
            let (keys, entries, last) = reader.next_piece(map)?;
            for (key, entry) in keys.iter().zip(entries) {
                // Most entries are young, and need no look at their other half.
                if now.wrapping_sub(entry.last_seen) <= timeouts.shortest(key.protocol) {
                    swept.kept += 1;
                    continue;
                }
                let connection = Connection::of(key, entry, |key| self.get(key))?;
                if connection.other.is_none() && self.get(key)?.is_none() {
                    // It went with its other half.
                    continue;
                }
                if connection.silent(now) <= timeouts.of(key.protocol, connection.state()) {
                    swept.kept += 1;
                    continue;
                }
                swept.removed += self.remove(&connection)?;
            }
            if last {
                return Ok(swept);
            }
        }
    }

    /// Removes connections until there is room for `missing` entries more, or none is left that
    /// may go. Gives how many connections and entries went.
    fn make_room(&mut self, now: u32, missing: usize) -> io::Result<(usize, usize)> {
        let mut candidates = Vec::new();
        let mut reader = BatchReader::<ConntrackKey<F>, ConntrackEntry<F>>::new();
        loop {
            let map = self.entries.map().fd().as_fd();
            let (keys, entries, last) = reader.next_piece(map)?;
            for (key, entry) in keys.iter().zip(entries) {
                // The forward half stands for both; one alone waits for its timeout. What cannot
                // go by what this half says costs no look at the other.
                let own_silence = now.wrapping_sub(entry.last_seen);
                if key.direction != Direction::Original as u8
                    || !Rank::is_possible(entry.seen, own_silence)
                {
                    continue;
                }
                let connection = Connection::of(key, entry, |key| self.get(key))?;
                let silent = connection.silent(now);
                if let Some(rank) = Rank::of(connection.state(), silent) {
                    candidates.push(Candidate {
                        key: *key,
                        rank,
                        silent,
                        entries: 1 + usize::from(connection.other.is_some()),
                    });
                }
            }
            if last {
                break;
            }
        }
        let mut removed = (0, 0);
        for Candidate { key, silent, .. } in headroom::choose(candidates, missing) {
            let Some(entry) = self.get(&key)? else {
                continue;
            };
            let connection = Connection::of(&key, &entry, |key| self.get(key))?;
            // A packet may have come since it was chosen.
            if connection.silent(now) < silent {
                continue;
            }
            let entries = self.remove(&connection)?;
            removed.0 += usize::from(entries > 0);
            removed.1 += entries;
        }
        Ok(removed)
    }

    /// Removes both halves of the connection, or neither if a packet came since they were read:
    /// one alone would leave a flow that goes on with half of its translation. Gives how many
    /// entries went.
    fn remove(&mut self, connection: &Connection<F>) -> io::Result<usize> {
        let Connection { key, entry, other } = connection;
        let unchanged = |at: &ConntrackKey<F>, was: &ConntrackEntry<F>| {
            Ok::<_, io::Error>(self.get(at)?.is_some_and(|now| now == *was))
        };
        if !unchanged(key, entry)? {
            return Ok(0);
        }
        let Some((other_key, other_entry)) = other else {
            return Ok(usize::from(self.remove_entry(key)?));
        };
        if !unchanged(other_key, other_entry)? {
            return Ok(0);
        }
        let first = self.remove_entry(key)?;
        if !self.get(other_key)?.is_some_and(|now| now == *other_entry) {
            // A packet of the other direction came in between, so the flow goes on.
            self.restore(key, entry)?;
            return Ok(0);
        }
        let second = self.remove_entry(other_key)?;
        Ok(usize::from(first) + usize::from(second))
    }

    /// Puts back an entry, unless another took its key or its place.
    fn restore(&mut self, key: &ConntrackKey<F>, entry: &ConntrackEntry<F>) -> io::Result<()> {
        match self.entries.insert(Raw(*key), Raw(*entry), BPF_NOEXIST) {
            Err(MapError::SyscallError(error))
                if !matches!(
                    error.io_error.raw_os_error(),
                    Some(libc::EEXIST | libc::E2BIG)
                ) =>
            {
                Err(error.io_error)
            }
            _ => Ok(()),
        }
    }

    fn remove_entry(&mut self, key: &ConntrackKey<F>) -> io::Result<bool> {
        match self.entries.remove(&Raw(*key)) {
            Ok(()) => Ok(true),
            Err(error) => absent(error).map(|()| false),
        }
    }

    pub(crate) fn get(&self, key: &ConntrackKey<F>) -> io::Result<Option<ConntrackEntry<F>>> {
        match self.entries.get(&Raw(*key), 0) {
            Ok(Raw(entry)) => Ok(Some(entry)),
            Err(error) => absent(error).map(|()| None),
        }
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
