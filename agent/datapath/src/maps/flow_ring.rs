//! The ring in which programs report connections and packets.

use std::{
    fmt, io,
    net::SocketAddr,
    time::{Duration, SystemTime},
};

use aya::{
    Ebpf,
    maps::{MapData, RingBuf},
};
use bytemuck::{Pod, Zeroable, try_pod_read_unaligned};
use ipnet::IpNet;
use shunt_common::{
    ConnectionRecord, Counter, EndCause, FlowControl, FlowEnds, FlowHead, FlowKind, PacketRecord,
    V4, V6, connections::Wide, registry, sample, threshold,
};

use crate::{
    error::DatapathError,
    maps::{
        family::FromIp,
        object_maps::{shared, take},
    },
    sys::{monotonic, shared_array::SharedArray},
};

/// Event of a connection or of a packet.
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
    /// Time at which that was seen.
    pub time: SystemTime,
    /// Why it ended; `None` of one that began.
    pub ended: Option<EndCause>,
    /// The number of its service port; 0 if it is of none.
    pub service: u32,
    /// Transport protocol, IANA number.
    pub protocol: u8,
    /// Address of its client.
    pub client: SocketAddr,
    /// Address that the client connected to.
    pub frontend: SocketAddr,
    /// Address of its backend.
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
    /// Time at which that was seen.
    pub time: SystemTime,
    /// True if its sender was notified.
    pub is_refused: bool,
    /// Why.
    pub reason: Counter,
    /// The number of the service port that it was for; 0 if that is not known, or none.
    pub service: u32,
    /// The index of the interface that it was at.
    pub interface: u32,
    /// Length of the frame.
    pub length: u32,
    /// Its first bytes.
    pub bytes: Vec<u8>,
}

/// Choice of the events that are reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowChoice {
    /// The kinds.
    pub kinds: FlowKind,
    /// Of one connection in so many, and of one packet; 0 and 1: of all.
    pub one_in: u32,
    /// Of connections of clients there alone; of packets, all are reported.
    pub client: Option<FlowEnd>,
    /// Of connections to frontends there alone.
    pub frontend: Option<FlowEnd>,
}

/// Range and port of an end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowEnd {
    /// Its address is one of these.
    pub range: IpNet,
    /// Its port; 0: any.
    pub port: u16,
}

/// Returns the ends that programs compare. Ends of two families, which no connection has, are left to the filter.
fn ends(client: Option<FlowEnd>, frontend: Option<FlowEnd>) -> FlowEnds {
    if client.is_none() && frontend.is_none() {
        return FlowEnds::default();
    }
    of_family::<V4>(4, client, frontend)
        .or_else(|| of_family::<V6>(6, client, frontend))
        .unwrap_or_default()
}

fn of_family<F: FromIp + Wide>(
    family: u32,
    client: Option<FlowEnd>,
    frontend: Option<FlowEnd>,
) -> Option<FlowEnds> {
    let side = |end: Option<FlowEnd>| {
        end.map_or(Some((None, 0)), |FlowEnd { range, port }| {
            let address = F::address(range.network())?;
            Some((Some((address, F::address(range.netmask())?)), port))
        })
    };
    let ((client, source), (frontend, destination)) = (side(client)?, side(frontend)?);
    let any = F::address(F::ip(Zeroable::zeroed()))?;
    let part = |of: Option<(F::Address, F::Address)>| of.unwrap_or((any, any));
    let ((client, client_mask), (frontend, frontend_mask)) = (part(client), part(frontend));
    let words = |addresses: F::Addresses| {
        let mut words = [0; 4];
        let own = F::words(&addresses);
        words[..own.len()].copy_from_slice(own);
        words
    };
    let mask = |port: u16| if port == 0 { 0 } else { u16::MAX };
    Some(FlowEnds {
        addresses: words(F::pack(client, frontend)),
        address_mask: words(F::pack(client_mask, frontend_mask)),
        ports: both(source, destination),
        port_mask: both(mask(source), mask(destination)),
        family,
        reserved: 0,
    })
}

/// Two ports as the word that they are in a packet.
fn both(source: u16, destination: u16) -> u32 {
    bytemuck::cast([source.to_be(), destination.to_be()])
}

/// Returns whether a connection with this sample is taken where one in so many is; 0 and 1: all are.
pub const fn is_sampled(sample: u32, one_in: u32) -> bool {
    sample <= threshold(one_in)
}

/// Reads them.
pub struct FlowReader {
    ring: RingBuf<MapData>,
    control: SharedArray<FlowControl>,
    /// Time at which the programs' clock began.
    beginning: SystemTime,
}

impl fmt::Debug for FlowReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowReader").finish_non_exhaustive()
    }
}

impl FlowReader {
    /// Takes the ring out of the object whose programs write there. Nothing is reported yet.
    pub(crate) fn take(ebpf: &mut Ebpf) -> Result<Self, DatapathError> {
        let name = registry::FLOW_EVENTS.name;
        let failed = |source| DatapathError::Mapping { name, source };
        Ok(Self {
            control: shared(ebpf, registry::FLOW_CONTROL)?,
            ring: take(ebpf, registry::FLOW_EVENTS)?,
            beginning: monotonic::beginning().map_err(failed)?,
        })
    }

    /// Has the programs report these from now on.
    pub fn choose(&mut self, choice: FlowChoice) {
        let FlowChoice {
            kinds,
            one_in,
            client,
            frontend,
        } = choice;
        let control = FlowControl {
            kinds: kinds.0,
            threshold: threshold(one_in),
            ends: ends(client, frontend),
            ..FlowControl::default()
        };
        self.control.write(FlowControl::CHOICE, control);
    }

    /// Returns the number of events that found no room in the ring since it is there.
    pub fn lost(&self) -> u64 {
        self.control.read(FlowControl::LOSS).lost
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
    let ends = |addresses: &F::Addresses, ports: u32| {
        let (source, destination) = F::unpack(addresses);
        (at(source, ports), at(destination, ports >> 16))
    };
    let (came, goes) = if record.is_reply == 0 {
        ((came, record.came_ports), (goes, record.goes_ports))
    } else {
        let reversed = |of: F::Addresses, ports: u32| (F::all_reversed(&of), ports.rotate_left(16));
        (
            reversed(goes, record.goes_ports),
            reversed(came, record.came_ports),
        )
    };
    let (client, frontend) = ends(&came.0, came.1);
    let (seen, backend) = ends(&goes.0, goes.1);
    let ended = match record.head.kind {
        FlowKind::OPENED => None,
        _ => Some(EndCause::of_number(record.head.reason)?),
    };
    Some(FlowConnection {
        time,
        ended,
        service: record.head.service,
        protocol: record.protocol,
        client,
        frontend,
        backend,
        snat_source: (seen != client).then_some(seen),
        overdue: record.overdue,
        sample: sample(F::words(&came.0), came.1),
    })
}

impl Drop for FlowReader {
    fn drop(&mut self) {
        // Programs that go on for a moment, or that cannot be replaced, report nothing.
        self.control
            .write(FlowControl::CHOICE, FlowControl::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(range: &str, port: u16) -> FlowEnd {
        let range = range.parse().unwrap();
        FlowEnd { range, port }
    }

    /// Returns whether programs report a connection of this client to this frontend.
    fn takes(ends: &FlowEnds, client: SocketAddr, frontend: SocketAddr) -> bool {
        fn words<F: FromIp + Wide>(client: SocketAddr, frontend: SocketAddr) -> Option<Vec<u64>> {
            let addresses = F::pack(F::address(client.ip())?, F::address(frontend.ip())?);
            Some(F::words(&addresses).to_vec())
        }
        let (family, words) = words::<V4>(client, frontend)
            .map(|words| (4, words))
            .or_else(|| Some((6, words::<V6>(client, frontend)?)))
            .unwrap();
        let ports = both(client.port(), frontend.port());
        let mut words = words.iter().zip(ends.addresses).zip(ends.address_mask);
        ends.family == 0
            || ends.family == family
                && words.all(|((have, want), mask)| !FlowEnds::differs(*have, want, mask))
                && !FlowEnds::differs(ports.into(), ends.ports.into(), ends.port_mask.into())
    }

    #[test]
    fn programs_compare_what_a_filter_says_of_clients_and_frontends() {
        for (client, frontend, around, beside, other_family) in [
            (
                "10.1.1.5:40000",
                "10.96.0.10:80",
                "10.1.0.0/16",
                "10.2.0.0/16",
                "::/0",
            ),
            (
                "[fd00:10:1:1::5]:40000",
                "[fd00:10:96::10]:80",
                "fd00:10:1::/48",
                "fd00:10:2::/48",
                "0.0.0.0/0",
            ),
        ] {
            let (client, frontend): (SocketAddr, SocketAddr) =
                (client.parse().unwrap(), frontend.parse().unwrap());
            let is = |of: Option<FlowEnd>, to| takes(&ends(of, to), client, frontend);
            let whole = |of: SocketAddr, port| {
                let range = of.ip().into();
                Some(FlowEnd { range, port })
            };
            assert!(is(None, None));
            assert!(is(Some(end(around, 0)), None));
            assert!(!is(Some(end(beside, 0)), None));
            assert!(!is(Some(end(other_family, 0)), None));
            assert!(is(whole(client, 0), None));
            assert!(is(whole(client, 40_000), whole(frontend, 80)));
            assert!(is(None, whole(frontend, 80)));
            assert!(!is(None, whole(frontend, 81)));
            assert!(!is(whole(client, 40_001), None));
            assert!(!is(whole(frontend, 0), None));
        }
        let (v4, v6) = (Some(end("10.0.0.0/8", 0)), Some(end("fd00::/8", 0)));
        assert_eq!(
            ends(v4, v6),
            FlowEnds::default(),
            "for the agent to find out"
        );
    }
}
