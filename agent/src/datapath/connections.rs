//! The connections as they are listed: one line each, out of the two entries that each has.

use std::{io, net::SocketAddr, os::fd::AsFd as _, sync::Arc};

use aya::{
    Ebpf,
    maps::{HashMap, Map, MapData, MapError},
};
use shunt_common::{ConntrackEntry, ConntrackKey, Direction, Family};

use super::{
    Conntrack, DatapathError, batch::BatchReader, conntrack::Connection, family::FromIp,
    lifetime::Phase, removed_for_room::RemovedForRoom, shared_array::SharedArray,
};

/// A connection that is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveConnection {
    /// Transport protocol, IANA number.
    pub protocol: u8,
    /// Who opened it.
    pub client: SocketAddr,
    /// What the client connected to.
    pub frontend: SocketAddr,
    /// Who serves it.
    pub backend: SocketAddr,
    /// Where it is in its life.
    pub phase: Phase,
    /// For how long neither side has sent a packet, in seconds of the agent's clock.
    pub idle: u32,
}

/// A way to read the connections beside the collector, which owns them.
#[derive(Clone)]
pub struct Connections<F: Family>(Arc<Conntrack<F>>);

impl<F: FromIp> Connections<F> {
    /// Opens the table and the clock of these names a second time.
    pub(super) fn open(
        ebpf: &Ebpf,
        table: &'static str,
        clock: &'static str,
        removed_for_room: RemovedForRoom,
    ) -> Result<Self, DatapathError> {
        let failed = |name| move |source| DatapathError::Map { name, source };
        let entries = Map::from_map_data(duplicate(ebpf, table)?).map_err(failed(table))?;
        let entries = HashMap::try_from(entries).map_err(failed(table))?;
        let data = duplicate(ebpf, clock)?;
        let length = data.info().map_err(failed(clock))?.max_entries();
        let memory =
            SharedArray::map(data.fd(), length).map_err(|source| DatapathError::Mapping {
                name: clock,
                source,
            })?;
        let conntrack = Conntrack::new(entries, memory, removed_for_room).map_err(failed(table))?;
        Ok(Self(Arc::new(conntrack)))
    }

    /// How many entries the table has room for; a connection takes two.
    pub fn capacity(&self) -> u32 {
        self.0.capacity()
    }

    /// How many connections were removed for room since this agent began, before their time.
    pub fn removed_for_room(&self) -> u64 {
        self.0.removed_for_room().get()
    }

    /// How many entries there are. Reads the whole table, which takes milliseconds.
    ///
    /// # Errors
    ///
    /// If the kernel refuses to read.
    pub fn count(&self) -> io::Result<usize> {
        let mut reader = BatchReader::<ConntrackKey<F>, ConntrackEntry<F>>::new();
        let mut count = 0;
        loop {
            let (keys, _, last) = reader.next_piece(self.0.map().fd().as_fd())?;
            count += keys.len();
            if last {
                return Ok(count);
            }
        }
    }

    /// Begins to list the connections.
    pub fn list(&self) -> ConnectionList<F> {
        ConnectionList {
            table: Arc::clone(&self.0),
            reader: BatchReader::new(),
            ended: false,
        }
    }
}

/// A second handle on a map of the object.
fn duplicate(ebpf: &Ebpf, name: &'static str) -> Result<MapData, DatapathError> {
    let (Map::HashMap(data) | Map::Array(data)) =
        ebpf.map(name).ok_or(DatapathError::Missing(name))?
    else {
        return Err(DatapathError::Missing(name));
    };
    let failed = |source| DatapathError::Map { name, source };
    let descriptor = data
        .fd()
        .as_fd()
        .try_clone_to_owned()
        .map_err(|error| failed(MapError::IoError(error)))?;
    MapData::from_fd(descriptor).map_err(failed)
}

/// The connections, piece by piece. Between two pieces nothing is held in the kernel, so whoever
/// reads may take their time.
pub struct ConnectionList<F: Family> {
    table: Arc<Conntrack<F>>,
    reader: BatchReader<ConntrackKey<F>, ConntrackEntry<F>>,
    ended: bool,
}

impl<F: FromIp> ConnectionList<F> {
    /// Some more connections; `None` at the end.
    ///
    /// # Errors
    ///
    /// If the kernel refuses to read.
    pub fn next_piece(&mut self) -> io::Result<Option<Vec<LiveConnection>>> {
        if self.ended {
            return Ok(None);
        }
        let now = self.table.now();
        let (keys, entries, last) = self.reader.next_piece(self.table.map().fd().as_fd())?;
        let mut found = Vec::with_capacity(keys.len() / 2);
        for (key, entry) in keys.iter().zip(entries) {
            let connection = Connection::of(key, entry, |key| self.table.get(key))?;
            let forward = key.direction == Direction::Forward as u8;
            // With both entries there, the forward one stands for both.
            if forward || connection.other.is_none() {
                found.push(live(key, entry, forward, &connection, now));
            }
        }
        self.ended = last;
        Ok(Some(found))
    }
}

fn live<F: FromIp>(
    key: &ConntrackKey<F>,
    entry: &ConntrackEntry<F>,
    forward: bool,
    connection: &Connection<F>,
    now: u32,
) -> LiveConnection {
    let at = |address, port| SocketAddr::new(F::ip(address), u16::from_be(port));
    let (arrives, leaves) = (&key.tuple, &entry.translated);
    let (client, frontend, backend) = if forward {
        (
            at(arrives.source, arrives.source_port),
            at(arrives.destination, arrives.destination_port),
            at(leaves.destination, leaves.destination_port),
        )
    } else {
        (
            at(leaves.destination, leaves.destination_port),
            at(leaves.source, leaves.source_port),
            at(arrives.source, arrives.source_port),
        )
    };
    LiveConnection {
        protocol: key.protocol,
        client,
        frontend,
        backend,
        phase: connection.phase(),
        idle: connection.silent(now),
    }
}
