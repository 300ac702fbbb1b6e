//! A table of version 3 of the layouts, as it hands over: a hash of the kernel's, with two entries a
//! connection that are dated by the agent's clock.

use std::{io, os::fd::AsFd as _};

use aya::maps::{HashMap, IterableMap as _, MapData, MapError};
use shunt_common::{
    ConntrackKey, Direction, SCTP, TCP,
    connections::{Connection, Key, Meta, Seen, Snapshot, Wide},
    version_3::ConntrackEntry,
};

use crate::{
    handover::{dated::Dates, reconcile::Source},
    maps::family::FromIp,
    sys::{batch::BatchReader, raw::Raw},
};

/// The table.
#[derive(Debug)]
pub(crate) struct Hash<F: Wide> {
    entries: HashMap<MapData, Raw<ConntrackKey<F>>, Raw<ConntrackEntry<F>>>,
    dates: Dates,
}

impl<F: FromIp + Wide> Hash<F> {
    /// Over the table, whose entries are of these dates.
    pub(crate) const fn new(
        entries: HashMap<MapData, Raw<ConntrackKey<F>>, Raw<ConntrackEntry<F>>>,
        dates: Dates,
    ) -> Self {
        Self { entries, dates }
    }

    fn entry(&self, key: &ConntrackKey<F>) -> io::Result<Option<ConntrackEntry<F>>> {
        match self.entries.get(&Raw(*key), 0) {
            Ok(Raw(entry)) => Ok(Some(entry)),
            Err(MapError::KeyNotFound) => Ok(None),
            Err(MapError::SyscallError(error))
                if error.io_error.kind() == io::ErrorKind::NotFound =>
            {
                Ok(None)
            }
            Err(MapError::SyscallError(error)) => Err(error.io_error),
            Err(other) => Err(io::Error::other(other)),
        }
    }

    /// The connection of an entry of the original direction.
    fn snapshot(
        &self,
        key: &ConntrackKey<F>,
        entry: &ConntrackEntry<F>,
    ) -> io::Result<Snapshot<F>> {
        let reply = ConntrackKey::new(entry.translated.reversed(), key.protocol, Direction::Reply);
        // A client that uses its port elsewhere has taken the reply's entry with it.
        let reply = self
            .entry(&reply)?
            .filter(|reply| reply.translated.reversed() == key.tuple);
        Ok(converted(key, entry, reply.as_ref(), self.dates))
    }
}

/// What a connection of version 3 is in a table of ours.
fn converted<F: Wide>(
    key: &ConntrackKey<F>,
    entry: &ConntrackEntry<F>,
    reply: Option<&ConntrackEntry<F>>,
    dates: Dates,
) -> Snapshot<F> {
    let seen_of_reply = reply.map_or(0, |reply| reply.seen);
    let (forward, answered) = ConntrackEntry::<F>::halves(key.protocol, entry.seen, seen_of_reply);
    let last = dates.tick(entry.last_seen);
    Snapshot {
        connection: Connection {
            seen: forward & Meta::OPENED,
            generation: entry.generation,
            backend: entry.backend,
            ..Connection::new(&key.tuple, &entry.translated, key.protocol)
        },
        forward: Seen {
            bits: forward,
            last,
        },
        reply: Seen {
            bits: answered,
            last: reply.map_or(last, |reply| dates.tick(reply.last_seen)),
        },
        // TCP: what a SYN-ACK to come will be acknowledged by is not known yet. UDP: the first
        // packet came no later than the last.
        mark: match key.protocol {
            TCP | SCTP => 0,
            _ => last,
        },
    }
}

impl<F: FromIp + Wide> Source<F> for Hash<F> {
    fn each(&self, see: &mut dyn FnMut(&Snapshot<F>) -> io::Result<()>) -> io::Result<()> {
        let mut reader = BatchReader::<ConntrackKey<F>, ConntrackEntry<F>>::new();
        loop {
            let (keys, entries, last) = reader.next_piece(self.entries.map().fd().as_fd())?;
            for (key, entry) in keys.iter().zip(entries) {
                if key.direction == Direction::Original as u8 {
                    see(&self.snapshot(key, entry)?)?;
                }
            }
            if last {
                return Ok(());
            }
        }
    }

    fn get(&self, forward: &Key<F>) -> io::Result<Option<Snapshot<F>>> {
        let key = ConntrackKey::new(forward.tuple(), forward.protocol(), Direction::Original);
        let entry = self.entry(&key)?;
        entry.map(|entry| self.snapshot(&key, &entry)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use bytemuck::Zeroable as _;
    use shunt_common::{UDP, V4, connections::Phase};

    use super::*;
    use crate::maps::clock::Rate;

    const PACKET: u16 = ConntrackEntry::<V4>::PACKET;
    const FIN: u16 = PACKET | ConntrackEntry::<V4>::FIN;
    const RST: u16 = PACKET | ConntrackEntry::<V4>::RST;

    #[test]
    fn a_connection_of_version_3_is_as_far_as_it_was() {
        for (protocol, forward, reply, phase) in [
            (TCP, PACKET, None, Phase::SynSent),
            (TCP, PACKET, Some(0), Phase::SynSent),
            (TCP, PACKET, Some(PACKET), Phase::Established),
            (TCP, FIN, Some(PACKET), Phase::Closing),
            (TCP, PACKET, Some(FIN), Phase::Closing),
            (TCP, FIN, Some(FIN), Phase::TimeWait),
            (TCP, RST, Some(PACKET), Phase::Closed),
            (TCP, PACKET, Some(RST), Phase::Closed),
            (UDP, PACKET, None, Phase::Unreplied),
            (UDP, PACKET, Some(0), Phase::Unreplied),
            (UDP, PACKET, Some(PACKET), Phase::Lasting),
            (SCTP, PACKET, Some(0), Phase::SctpOpening),
            (SCTP, PACKET, Some(PACKET), Phase::SctpEstablished),
            (SCTP, FIN, Some(PACKET), Phase::SctpClosing),
            (SCTP, FIN, Some(FIN), Phase::SctpClosed),
        ] {
            let mut key = ConntrackKey::<V4>::zeroed();
            key.protocol = protocol;
            let entry = |seen, last_seen| {
                let mut entry = ConntrackEntry::<V4>::zeroed();
                (entry.seen, entry.last_seen, entry.generation) = (seen, last_seen, 7);
                entry
            };
            // 64 Hz: a tick is a second.
            let dates = Dates::new(100, 1000, 5000, Rate { hz: 64 });
            let reply = reply.map(|seen| entry(seen, 95));
            let snapshot = converted(&key, &entry(forward, 90), reply.as_ref(), dates);
            assert_eq!(snapshot.phase(), phase, "{protocol} {forward} {reply:?}");
            let idle = if reply.is_some() { 5 } else { 10 };
            assert_eq!(snapshot.idle(1000), idle);
            assert_eq!(snapshot.forward.last, 990);
            assert_eq!(snapshot.connection.generation, 7);
        }
    }
}
