//! The connections as they are listed: one line each, out of the two entries that each has.

use std::{io, net::SocketAddr, os::fd::AsFd as _, sync::Arc};

use aya::{
    Ebpf,
    maps::{HashMap, Map, MapData, MapError},
};
use shunt_common::{ConntrackEntry, ConntrackKey, Direction, V4, V6};

use crate::{
    conntrack::{
        clock::Clock, connection::Connection, conntrack_table::ConntrackTable,
        early_drops::EarlyDrops, lifetime::ConntrackState,
    },
    error::DatapathError,
    maps::{family::FromIp, table_use::TableUse},
    sys::batch::BatchReader,
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
    pub state: ConntrackState,
    /// For how long neither side has sent a packet, in seconds of the agent's clock.
    pub idle: u32,
}

/// A way to read the connections beside the collector, which owns them.
#[derive(Debug, Clone)]
pub struct Connections(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    clock: Clock,
    v4: ConntrackTable<V4>,
    v6: ConntrackTable<V6>,
    early_drops: EarlyDrops,
}

impl Connections {
    /// Opens the tables a second time.
    pub(crate) fn open(ebpf: &Ebpf, early_drops: EarlyDrops) -> Result<Self, DatapathError> {
        Ok(Self(Arc::new(Inner {
            clock: Clock::open(ebpf)?,
            v4: open(ebpf, &early_drops)?,
            v6: open(ebpf, &early_drops)?,
            early_drops,
        })))
    }

    /// How many connections were removed for room since this agent began, before their time.
    pub fn early_drops(&self) -> u64 {
        self.0.early_drops.get()
    }

    /// How full the tables are. Reads all of them, which takes milliseconds.
    ///
    /// # Errors
    ///
    /// If the kernel refuses to read.
    pub fn table_use(&self) -> io::Result<[TableUse; 2]> {
        Ok([table_use(&self.0.v4)?, table_use(&self.0.v6)?])
    }

    /// Begins to list the connections.
    pub fn list(&self) -> ConnectionList {
        ConnectionList {
            tables: Arc::clone(&self.0),
            v4: Some(BatchReader::new()),
            v6: Some(BatchReader::new()),
        }
    }
}

/// Opens a family's table a second time.
fn open<F: FromIp>(
    ebpf: &Ebpf,
    early_drops: &EarlyDrops,
) -> Result<ConntrackTable<F>, DatapathError> {
    let name = F::MAPS.conntrack.name;
    let failed = |source| DatapathError::Map { name, source };
    let entries = Map::from_map_data(duplicate(ebpf, name)?).map_err(failed)?;
    let entries = HashMap::try_from(entries).map_err(failed)?;
    ConntrackTable::new(entries, early_drops.clone()).map_err(failed)
}

fn table_use<F: FromIp>(table: &ConntrackTable<F>) -> io::Result<TableUse> {
    let mut reader = Reader::<F>::new();
    let mut used = 0;
    loop {
        let (keys, _, last) = reader.next_piece(table.map().fd().as_fd())?;
        used += keys.len() as u32;
        if last {
            return Ok(TableUse {
                name: F::MAPS.conntrack.shown,
                used,
                capacity: table.capacity(),
            });
        }
    }
}

/// A second handle on a map of the object.
fn duplicate(ebpf: &Ebpf, name: &'static str) -> Result<MapData, DatapathError> {
    let Map::HashMap(data) = ebpf.map(name).ok_or(DatapathError::Missing(name))? else {
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

type Reader<F> = BatchReader<ConntrackKey<F>, ConntrackEntry<F>>;

/// The connections, piece by piece. Between two pieces nothing is held in the kernel, so whoever
/// reads may take their time.
#[derive(Debug)]
pub struct ConnectionList {
    tables: Arc<Inner>,
    /// `None` at the end.
    v4: Option<Reader<V4>>,
    v6: Option<Reader<V6>>,
}

impl ConnectionList {
    /// Some more connections; `None` at the end.
    ///
    /// # Errors
    ///
    /// If the kernel refuses to read.
    pub fn next_piece(&mut self) -> io::Result<Option<Vec<LiveConnection>>> {
        let Self { tables, v4, v6 } = self;
        let now = tables.clock.now();
        match next_piece(&tables.v4, v4, now)? {
            None => next_piece(&tables.v6, v6, now),
            piece => Ok(piece),
        }
    }
}

/// Some more connections of a family; `None` at the end, of the reader too.
fn next_piece<F: FromIp>(
    table: &ConntrackTable<F>,
    place: &mut Option<Reader<F>>,
    now: u32,
) -> io::Result<Option<Vec<LiveConnection>>> {
    let Some(reader) = place else {
        return Ok(None);
    };
    let (keys, entries, last) = reader.next_piece(table.map().fd().as_fd())?;
    let mut found = Vec::with_capacity(keys.len() / 2);
    for (key, entry) in keys.iter().zip(entries) {
        let connection = Connection::of(key, entry, |key| table.get(key))?;
        let forward = key.direction == Direction::Original as u8;
        // With both entries there, the forward one stands for both.
        if forward || connection.other.is_none() {
            found.push(live(key, entry, forward, &connection, now));
        }
    }
    if last {
        *place = None;
    }
    Ok(Some(found))
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
        state: connection.state(),
        idle: connection.silent(now),
    }
}
