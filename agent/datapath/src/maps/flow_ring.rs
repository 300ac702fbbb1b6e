//! The ring in which programs tell what becomes of connections and packets.

use std::{
    fmt, io,
    net::SocketAddr,
    time::{Duration, SystemTime},
};

use aya::{
    Ebpf,
    maps::{MapData, RingBuf},
};
use bytemuck::{Pod, try_pod_read_unaligned};
use shunt_common::{
    ConnectionRecord, Counter, EndCause, FlowControl, FlowHead, FlowKind, PacketRecord, V4, V6,
    connections::Wide, registry, sample, threshold,
};

use crate::{
    error::DatapathError,
    maps::{
        family::FromIp,
        kernel_tables::{shared, take},
    },
    sys::{monotonic, shared_array::SharedArray},
};

/// What becomes of a connection or of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Flow {
    /// A connection began or ended.
    Connection(FlowConnection),
    /// A packet was refused or dropped.
    Packet(FlowPacket),
}

/// A connection that began or ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowConnection {
    /// When that was seen.
    pub time: SystemTime,
    /// Why it ended; `None` of one that began.
    pub ended: Option<EndCause>,
    /// The number of its service port; 0 if it is of none.
    pub service: u32,
    /// Transport protocol, IANA number.
    pub protocol: u8,
    /// Who opened it.
    pub client: SocketAddr,
    /// What the client connected to.
    pub frontend: SocketAddr,
    /// Who serves it.
    pub backend: SocketAddr,
    /// From where its packets go on, if not from the client's own address and port.
    pub snat_source: Option<SocketAddr>,
    /// Of one that timed out, how many ticks ago that was when it was noticed.
    pub overdue: u32,
    /// A number by which as many are taken as are wanted: see [`is_sampled`].
    pub sample: u32,
}

/// A packet that was refused or dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowPacket {
    /// When.
    pub time: SystemTime,
    /// Whether its sender was told.
    pub is_refused: bool,
    /// Why.
    pub reason: Counter,
    /// The number of the service port that it was for; 0 if that is not known, or none.
    pub service: u32,
    /// The index of the interface that it was at.
    pub interface: u32,
    /// How long the frame is.
    pub length: u32,
    /// Its first bytes.
    pub bytes: Vec<u8>,
}

/// Which of them are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowChoice {
    /// The kinds.
    pub kinds: FlowKind,
    /// Of one connection in so many, and of one packet; 0 and 1: of all.
    pub one_in: u32,
}

/// Whether a connection with this sample is taken where one in so many is; 0 and 1: all are.
pub const fn is_sampled(sample: u32, one_in: u32) -> bool {
    sample <= threshold(one_in)
}

/// Reads them.
pub struct FlowReader {
    ring: RingBuf<MapData>,
    control: SharedArray<FlowControl>,
    /// When the programs' clock began.
    beginning: SystemTime,
}

impl fmt::Debug for FlowReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowReader").finish_non_exhaustive()
    }
}

impl FlowReader {
    /// Takes the ring out of the object whose programs write there. Nothing is told yet.
    pub(crate) fn take(ebpf: &mut Ebpf) -> Result<Self, DatapathError> {
        let name = registry::FLOW_EVENTS.name;
        let failed = |source| DatapathError::Mapping { name, source };
        let mut reader = Self {
            control: shared(ebpf, registry::FLOW_CONTROL)?,
            ring: take(ebpf, registry::FLOW_EVENTS)?,
            beginning: monotonic::beginning().map_err(failed)?,
        };
        reader.control.write(0, FlowControl::default());
        Ok(reader)
    }

    /// Has the programs tell these from now on. Keeps what they have lost.
    pub fn choose(&mut self, choice: FlowChoice) {
        let FlowChoice { kinds, one_in } = choice;
        let control = FlowControl {
            kinds: kinds.0,
            threshold: threshold(one_in),
            lost: self.lost(),
        };
        self.control.write(0, control);
    }

    /// How many found no room in the ring since it is there.
    pub fn lost(&self) -> u64 {
        self.control.read(0).lost
    }

    /// The next one, if there is any; what is not understood is left out.
    pub fn next_flow(&mut self) -> Option<Flow> {
        loop {
            let record = self.ring.next()?;
            if let Some(flow) = flow(&record, self.beginning) {
                return Some(flow);
            }
        }
    }

    /// Goes by the host's clock as it is now, in case it was set.
    ///
    /// # Errors
    ///
    /// If the kernel's clock cannot be read.
    pub fn set_clock(&mut self) -> io::Result<()> {
        self.beginning = monotonic::beginning()?;
        Ok(())
    }
}

/// A record of this type, if it is as long as one.
fn of<T: Pod>(record: &[u8]) -> Option<T> {
    let bytes = record.get(..size_of::<T>())?;
    try_pod_read_unaligned(bytes).ok()
}

fn flow(record: &[u8], beginning: SystemTime) -> Option<Flow> {
    let head: FlowHead = of(record)?;
    let time = beginning + Duration::from_nanos(head.time);
    if head.kind.is_among(FlowKind::OPENED.and(FlowKind::ENDED)) {
        let record: ConnectionRecord = of(record)?;
        return match head.place {
            4 => connection::<V4>([record.came[0]], [record.goes[0]], &record, time),
            6 => connection::<V6>(record.came, record.goes, &record, time),
            _ => None,
        }
        .map(Flow::Connection);
    }
    let PacketRecord {
        head: _,
        length,
        count,
        bytes,
    } = of(record)?;
    Some(Flow::Packet(FlowPacket {
        time,
        is_refused: head.kind == FlowKind::REFUSED,
        reason: Counter::ALL.get(head.reason as usize).copied()?,
        service: head.service,
        interface: head.place,
        length,
        bytes: bytes.get(..count as usize)?.to_vec(),
    }))
}

fn connection<F: FromIp + Wide>(
    came: F::Addresses,
    goes: F::Addresses,
    record: &ConnectionRecord,
    time: SystemTime,
) -> Option<FlowConnection> {
    let at = |address, port: u32| SocketAddr::new(F::ip(address), u16::from_be(port as u16));
    let ends = |addresses, ports: u32| {
        let (source, destination) = F::unpack(&addresses);
        (at(source, ports), at(destination, ports >> 16))
    };
    let (client, frontend) = ends(came, record.came_ports);
    let (backend, seen) = ends(goes, record.goes_ports);
    let ended = match record.head.kind {
        FlowKind::OPENED => None,
        _ => Some(EndCause::of_number(record.head.reason)?),
    };
    Some(FlowConnection {
        time,
        ended,
        service: record.head.service,
        protocol: record.protocol as u8,
        client,
        frontend,
        backend,
        snat_source: (seen != client).then_some(seen),
        overdue: record.overdue,
        sample: sample(F::words(&came), record.came_ports),
    })
}

impl Drop for FlowReader {
    fn drop(&mut self) {
        // Programs that go on for a moment, or that cannot be replaced, tell nobody.
        self.control.write(0, FlowControl::default());
    }
}
