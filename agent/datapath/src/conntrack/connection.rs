//! A connection, out of the two entries that it has in the table.

use std::io;

use shunt_common::{ConntrackEntry, ConntrackKey, Direction, Family};

use crate::conntrack::lifetime::ConntrackState;

/// One entry and, if it is still there, the other one of its connection.
pub(crate) struct Connection<F: Family> {
    pub(crate) key: ConntrackKey<F>,
    pub(crate) entry: ConntrackEntry<F>,
    pub(crate) other: Option<(ConntrackKey<F>, ConntrackEntry<F>)>,
}

impl<F: Family> Connection<F> {
    /// The connection that `entry` at `key` belongs to, the other half found by `get`.
    pub(crate) fn of(
        key: &ConntrackKey<F>,
        entry: &ConntrackEntry<F>,
        get: impl Fn(&ConntrackKey<F>) -> io::Result<Option<ConntrackEntry<F>>>,
    ) -> io::Result<Self> {
        let direction = if key.direction == Direction::Original as u8 {
            Direction::Reply
        } else {
            Direction::Original
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

    pub(crate) fn state(&self) -> ConntrackState {
        let (own, other) = (
            self.entry.seen,
            self.other.map_or(0, |(_, other)| other.seen),
        );
        // A direction's tuple as it leaves is the other's as it comes in, reversed.
        let (arrives, leaves) = (&self.key.tuple, &self.entry.translated);
        if self.key.direction == Direction::Original as u8 {
            let given_source =
                (arrives.source, arrives.source_port) != (leaves.source, leaves.source_port);
            ConntrackState::of(self.key.protocol, own, other, given_source)
        } else {
            let given_source = (arrives.destination, arrives.destination_port)
                != (leaves.destination, leaves.destination_port);
            ConntrackState::of(self.key.protocol, other, own, given_source)
        }
    }

    /// For how many seconds neither direction has had a packet.
    pub(crate) fn silent(&self, now: u32) -> u32 {
        let since = |entry: &ConntrackEntry<F>| now.wrapping_sub(entry.last_seen);
        let own = since(&self.entry);
        self.other.map_or(own, |(_, other)| own.min(since(&other)))
    }
}
