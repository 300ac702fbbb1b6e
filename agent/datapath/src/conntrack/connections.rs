//! The connections as they are listed: one line each, out of the two halves that each has.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::SystemTime,
};

use aya::Ebpf;
use shunt_common::{
    EndCause, V4, V6,
    connections::{Room, Seeds, Snapshot, Timeouts, Wide},
    sample,
};

use crate::{
    conntrack::state::ConntrackState,
    error::DatapathError,
    maps::{
        clock::Clock,
        connection_table::{Access, ConnectionTable},
        dsr_frontends::{DsrConnections, DsrFrontends},
        family::FromIp,
        flow_ring::FlowConnection,
        object_maps,
        table_use::TableUse,
        variables::Variables,
    },
    sys::grace,
};

/// Number of slots that are looked at for one piece of a list.
const PIECE: u32 = 1 << 14;

/// A connection that is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveConnection {
    /// Transport protocol, IANA number.
    pub protocol: u8,
    /// Address of its client.
    pub client: SocketAddr,
    /// Address that the client connected to.
    pub frontend: SocketAddr,
    /// Address of its backend.
    pub backend: SocketAddr,
    /// Its progress.
    pub state: ConntrackState,
    /// For how long neither side has sent a packet, in seconds.
    pub idle: u32,
    /// From where its packets go on, if not from the client's own address and port.
    pub snat_source: Option<SocketAddr>,
}

/// A way to read the connections beside the programs.
#[derive(Debug, Clone)]
pub struct Connections(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    clock: Clock,
    variables: Variables,
    v4: Counted<V4>,
    v6: Counted<V6>,
}

/// A table, and how many halves were live in it when it was last counted.
#[derive(Debug)]
struct Counted<F: FromIp> {
    table: ConnectionTable<F>,
    dsr_frontends: DsrFrontends<F>,
    used: AtomicU32,
}

impl Connections {
    /// Opens the tables of the loaded object.
    pub(crate) fn open(
        ebpf: &Ebpf,
        clock: Clock,
        variables: Variables,
        seeds: Seeds,
        timeouts: Timeouts,
    ) -> Result<Self, DatapathError> {
        Ok(Self(Arc::new(Inner {
            variables,
            v4: Counted::open(ebpf, seeds, timeouts)?,
            v6: Counted::open(ebpf, seeds, timeouts)?,
            clock,
        })))
    }

    /// Returns the use of the tables when they were last [counted](Self::count).
    pub fn table_use(&self) -> [TableUse; 2] {
        let Inner { v4, v6, .. } = &*self.0;
        [v4.table_use(), v6.table_use()]
    }

    /// Counts the connections whose time is not over, and finds out whether any is to a frontend in mode
    /// dsr. Between two pieces of a table, `pause` is called, and may end the counting by `false`.
    ///
    /// # Errors
    ///
    /// If the kernel's clock cannot be read, or the kernel cannot wait for packets.
    pub fn count(&self, mut pause: impl FnMut() -> bool) -> io::Result<()> {
        let Inner {
            clock,
            variables,
            v4,
            v6,
        } = &*self.0;
        let search = variables.seek();
        if search.is_some() {
            // Whatever packet is on its way has entered its connection then.
            grace::wait_for_readers()?;
        }
        let mut found = search.is_none();
        let is_done =
            v4.count(clock, &mut found, &mut pause)? && v6.count(clock, &mut found, &mut pause)?;
        if let Some(search) = search.filter(|_| is_done && !found) {
            search.found_none();
        }
        Ok(())
    }

    /// Returns whether no connection is remembered whose time is not over.
    ///
    /// # Errors
    ///
    /// If the kernel's clock cannot be read.
    pub fn is_empty(&self) -> io::Result<bool> {
        let Inner { clock, v4, v6, .. } = &*self.0;
        let now = clock.tick()?;
        Ok(v4.table.live(0, u32::MAX, now).next().is_none()
            && v6.table.live(0, u32::MAX, now).next().is_none())
    }

    /// The tick: what connections are dated by.
    ///
    /// # Errors
    ///
    /// If the kernel's clock cannot be read.
    pub fn tick(&self) -> io::Result<u32> {
        self.0.clock.tick()
    }

    /// The connections whose time was over after tick `since`, and is at tick `now`, though no side has ended them.
    pub fn expired(&self, since: u32, now: u32) -> Vec<FlowConnection> {
        let Inner { v4, v6, .. } = &*self.0;
        let mut expired = v4.expired(since, now);
        expired.extend(v6.expired(since, now));
        expired
    }

    /// Forgets the connections that `is_meant`, as if they had ended. Returns how many these were. Between
    /// two pieces of a table, `pause` is called.
    ///
    /// # Errors
    ///
    /// If the kernel's clock cannot be read.
    pub fn flush(
        &self,
        is_meant: impl Fn(&LiveConnection) -> bool,
        mut pause: impl FnMut(),
    ) -> io::Result<u64> {
        let Inner { clock, v4, v6, .. } = &*self.0;
        Ok(v4.flush(clock, &is_meant, &mut pause)? + v6.flush(clock, &is_meant, &mut pause)?)
    }

    /// Begins to list the connections.
    pub fn list(&self) -> ConnectionList {
        ConnectionList {
            tables: Arc::clone(&self.0),
            v4: 0,
            v6: 0,
        }
    }
}

impl<F: FromIp + Wide> Counted<F> {
    fn open(ebpf: &Ebpf, seeds: Seeds, timeouts: Timeouts) -> Result<Self, DatapathError> {
        let map = object_maps::array(ebpf, F::MAPS.conntrack)?;
        Ok(Self {
            table: ConnectionTable::map(map, Access::Write, seeds, timeouts)?,
            dsr_frontends: DsrFrontends::open(ebpf)?,
            used: AtomicU32::new(0),
        })
    }

    fn table_use(&self) -> TableUse {
        TableUse {
            name: F::MAPS.conntrack.shown,
            used: self.used.load(Ordering::Relaxed),
            retired: 0,
            capacity: self.table.capacity(),
        }
    }

    /// Returns whether it came to the end. `has_dsr` becomes true at a connection to a frontend in mode dsr.
    fn count(
        &self,
        clock: &Clock,
        has_dsr: &mut bool,
        pause: &mut impl FnMut() -> bool,
    ) -> io::Result<bool> {
        let mut to_dsr = DsrConnections::among(&self.dsr_frontends);
        let mut used = 0;
        for begin in (0..self.table.slots()).step_by(PIECE as usize) {
            let now = clock.tick()?;
            for snapshot in self.table.remembered(begin, begin + PIECE, now) {
                used += 2 * u32::from(self.table.is_live(&snapshot, now));
                *has_dsr = *has_dsr || to_dsr.has(&snapshot);
            }
            if !pause() {
                return Ok(false);
            }
        }
        self.used.store(used, Ordering::Relaxed);
        Ok(true)
    }

    /// Returns the connections that have timed out between the two ticks.
    fn expired(&self, since: u32, now: u32) -> Vec<FlowConnection> {
        let table = self.table.table();
        let slots = 0..self.table.slots();
        let snapshots = slots.filter_map(|index| table.snapshot(index));
        let expired = snapshots.filter_map(|snapshot| {
            let overdue = table.overdue_by(&snapshot, now);
            let is_new = overdue > 0 && overdue <= now.wrapping_sub(since);
            (is_new && snapshot.phase().room() != Room::Over).then(|| timed_out(&snapshot, overdue))
        });
        expired.collect()
    }

    /// Forgets the connections that are meant.
    fn flush(
        &self,
        clock: &Clock,
        is_meant: &impl Fn(&LiveConnection) -> bool,
        pause: &mut impl FnMut(),
    ) -> io::Result<u64> {
        let mut flushed = 0;
        for begin in (0..self.table.slots()).step_by(PIECE as usize) {
            let now = clock.tick()?;
            for snapshot in self.table.remembered(begin, begin + PIECE, now) {
                let idle = clock.rate().seconds(snapshot.idle(now));
                let is_flushed =
                    is_meant(&live(&snapshot, idle)) && self.table.table().end_snapshot(&snapshot);
                flushed += u64::from(is_flushed);
            }
            pause();
        }
        Ok(flushed)
    }

    /// The connections in the piece that begins at this place, which goes on to the next; `None`
    /// at the end.
    fn piece(&self, begin: &mut u32, clock: &Clock) -> io::Result<Option<Vec<LiveConnection>>> {
        if *begin >= self.table.slots() {
            return Ok(None);
        }
        let end = begin.saturating_add(PIECE);
        let now = clock.tick()?;
        let listed = self.table.live(*begin, end, now).map(|snapshot| {
            let idle = clock.rate().seconds(snapshot.idle(now));
            live(&snapshot, idle)
        });
        let listed = listed.collect();
        *begin = end;
        Ok(Some(listed))
    }
}

/// The connections, piece by piece. The reader may take its time.
#[derive(Debug)]
pub struct ConnectionList {
    tables: Arc<Inner>,
    /// The slots from which on is to be read.
    v4: u32,
    v6: u32,
}

impl ConnectionList {
    /// Some more connections, if there are any in the next piece; `None` at the end.
    ///
    /// # Errors
    ///
    /// If the kernel's clock cannot be read.
    pub fn next_piece(&mut self) -> io::Result<Option<Vec<LiveConnection>>> {
        let Inner { clock, v4, v6, .. } = &*self.tables;
        match v4.piece(&mut self.v4, clock)? {
            None => v6.piece(&mut self.v6, clock),
            piece => Ok(piece),
        }
    }
}

/// Returns the report of a connection whose time has been over for so many ticks.
fn timed_out<F: FromIp + Wide>(snapshot: &Snapshot<F>, overdue: u32) -> FlowConnection {
    let LiveConnection {
        protocol,
        client,
        frontend,
        backend,
        state: _,
        idle: _,
        snat_source,
    } = live(snapshot, 0);
    let forward = &snapshot.connection.forward;
    FlowConnection {
        time: SystemTime::now(),
        ended: Some(EndCause::TimedOut),
        service: snapshot.connection.service,
        protocol,
        client,
        frontend,
        backend,
        snat_source,
        overdue,
        sample: sample(F::words(&forward.addresses), forward.ports),
    }
}

fn live<F: FromIp + Wide>(snapshot: &Snapshot<F>, idle: u32) -> LiveConnection {
    let at = |address, port| SocketAddr::new(F::ip(address), u16::from_be(port));
    let connection = &snapshot.connection;
    let (client, translated) = (connection.client(), connection.translated());
    LiveConnection {
        protocol: connection.forward.protocol(),
        client: at(client.source, client.source_port),
        frontend: at(client.destination, client.destination_port),
        backend: at(translated.destination, translated.destination_port),
        state: snapshot.phase().into(),
        idle,
        snat_source: (!connection.keeps_client())
            .then(|| at(translated.source, translated.source_port)),
    }
}
