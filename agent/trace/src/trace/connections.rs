//! Connections in the programs' tables, for reading.

use std::{
    marker::PhantomData,
    net::{IpAddr, SocketAddr},
};

use bytemuck::{Zeroable as _, pod_read_unaligned};
use shunt_common::{
    Tuple, V4, V6,
    connections::{
        Key, Link, Memory, Phase, Role, Seeds, Slot, Snapshot, Table, Timeouts, Wide, place,
    },
    registry::{self, FamilyConstants, FamilyMaps},
};
use shunt_programs::Programs;

use crate::dump::record::Dump;

/// A family, and how its addresses are shown.
pub(crate) trait Shown: Wide {
    const MAPS: FamilyMaps;
    const CONSTANTS: FamilyConstants;

    /// The address as it is shown.
    fn ip(address: Self::Address) -> IpAddr;

    /// The address as tables have it.
    fn address(ip: IpAddr) -> Option<Self::Address>;
}

impl Shown for V4 {
    const MAPS: FamilyMaps = FamilyMaps::V4;
    const CONSTANTS: FamilyConstants = FamilyConstants::V4;

    fn ip(address: u32) -> IpAddr {
        address.to_ne_bytes().into()
    }

    fn address(ip: IpAddr) -> Option<u32> {
        match ip {
            IpAddr::V4(ip) => Some(u32::from_ne_bytes(ip.octets())),
            IpAddr::V6(_) => None,
        }
    }
}

impl Shown for V6 {
    const MAPS: FamilyMaps = FamilyMaps::V6;
    const CONSTANTS: FamilyConstants = FamilyConstants::V6;

    fn ip(address: [u32; 4]) -> IpAddr {
        bytemuck::cast::<_, [u8; 16]>(address).into()
    }

    fn address(ip: IpAddr) -> Option<[u32; 4]> {
        match ip {
            IpAddr::V4(_) => None,
            IpAddr::V6(ip) => Some(bytemuck::cast(ip.octets())),
        }
    }
}

/// The tuple of a packet.
pub(crate) fn tuple<F: Shown>(from: SocketAddr, to: SocketAddr) -> Option<Tuple<F>> {
    Some(Tuple {
        source: F::address(from.ip())?,
        destination: F::address(to.ip())?,
        source_port: from.port().to_be(),
        destination_port: to.port().to_be(),
    })
}

/// Source and destination of a tuple.
pub(crate) fn ends<F: Shown>(tuple: &Tuple<F>) -> (SocketAddr, SocketAddr) {
    (
        SocketAddr::new(F::ip(tuple.source), u16::from_be(tuple.source_port)),
        SocketAddr::new(
            F::ip(tuple.destination),
            u16::from_be(tuple.destination_port),
        ),
    )
}

/// The table of connections, for reading alone.
#[derive(Debug)]
pub(crate) struct ReadOnly<'a, F> {
    programs: &'a Programs,
    family: PhantomData<F>,
}

impl<F> Clone for ReadOnly<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for ReadOnly<'_, F> {}

/// The longest slot.
const WORDS: usize = V6::SLOT_WORDS;

/// A copy of a slot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words([u64; WORDS]);

impl Slot for Words {
    fn load(self, place: usize) -> u64 {
        self.0[place]
    }

    fn store(self, _: usize, _: u64) {}

    fn store_half(self, _: usize, _: u32) {}

    fn exchange(self, _: usize, _: u64, _: u64) -> bool {
        false
    }
}

impl<F: Shown> Memory for ReadOnly<'_, F> {
    type Family = F;
    type Slot = Words;

    fn slot(&self, index: u32) -> Option<Words> {
        let value = self
            .programs
            .value(F::MAPS.conntrack.name, &index.to_ne_bytes())?;
        let mut words = Words::zeroed_words();
        for (word, bytes) in words.0.iter_mut().zip(value.chunks_exact(8)) {
            *word = pod_read_unaligned(bytes);
        }
        Some(words)
    }
}

impl Words {
    fn zeroed_words() -> Self {
        Self(<[u64; WORDS]>::zeroed())
    }
}

/// Constants of the dump and time with which the tables of connections are read.
#[derive(Debug, Clone)]
pub(crate) struct Reader {
    seeds: Seeds,
    timeouts: Timeouts,
    homes: [u32; 2],
    now: u32,
}

/// A connection, and the direction of the packet that it was found by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    /// True if the packet is a backend's.
    pub(crate) is_reply: bool,
    /// Client that began it.
    pub(crate) client: SocketAddr,
    /// Frontend that the client asked for.
    pub(crate) frontend: SocketAddr,
    /// From where its packets go on.
    pub(crate) source: SocketAddr,
    /// Backend that answers.
    pub(crate) backend: SocketAddr,
    /// Phase of the connection.
    pub(crate) phase: Phase,
    /// For how many of the agent's ticks nothing was heard of it.
    pub(crate) idle: u32,
    /// True if its time is over, so that any packet may begin another one.
    pub(crate) is_over: bool,
    /// The index of its backend.
    pub(crate) index: u32,
}

impl Reader {
    /// Of the tables of a dump.
    pub(crate) fn of(dump: &Dump) -> Self {
        let constant = |name: &str| dump.constants.get(name).map(Vec::as_slice);
        let number = |name: &str| {
            let bytes = constant(name).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(1, u32::from_ne_bytes)
        };
        let seeds = constant(registry::CONNTRACK_SEEDS.name);
        let timeouts = constant(registry::CONNTRACK_TIMEOUTS.name);
        Self {
            seeds: seeds
                .and_then(|bytes| bytemuck::try_pod_read_unaligned(bytes).ok())
                .unwrap_or(Seeds([0; 10])),
            timeouts: timeouts
                .and_then(|bytes| bytemuck::try_pod_read_unaligned(bytes).ok())
                .unwrap_or(Timeouts::linux(1)),
            homes: [
                number(V4::CONSTANTS.conntrack_homes.name),
                number(V6::CONSTANTS.conntrack_homes.name),
            ],
            // As the programs date: `ebpf/src/maps/clock.rs`.
            now: (dump.node.ticks >> 6) as u32,
        }
    }

    /// The same with other seeds.
    pub(crate) const fn with_seeds(mut self, seeds: Seeds) -> Self {
        self.seeds = seeds;
        self
    }

    /// The table in this memory.
    pub(crate) const fn table<M: Memory>(&self, memory: M) -> Table<'_, M>
    where
        M::Family: Shown,
    {
        let [v4, v6] = self.homes;
        let homes = if M::Family::SLOT_WORDS == V6::SLOT_WORDS {
            v6
        } else {
            v4
        };
        Table::new(memory, homes, &self.seeds, &self.timeouts)
    }

    /// The tick at which the dump was taken.
    pub(crate) const fn now(&self) -> u32 {
        self.now
    }

    /// The connection that a packet with this tuple belongs to, if there is one.
    pub(crate) fn find<F: Shown>(
        &self,
        programs: &Programs,
        tuple: &Tuple<F>,
        protocol: u8,
    ) -> Option<Known> {
        let memory = ReadOnly::<F> {
            programs,
            family: PhantomData,
        };
        let table = self.table(memory);
        let forward = Key::new(tuple, protocol, Role::Forward);
        if let Some((_, snapshot)) = table.snapshot_of(&forward) {
            return Some(self.known(&table, &snapshot, false));
        }
        let half = table.find_half(&Key::new(tuple, protocol, Role::Reply))?;
        let link = Link(half.slot.load(place::LINK));
        let snapshot = table.snapshot(link.index())?;
        (snapshot.connection.reply.tuple() == *tuple).then(|| self.known(&table, &snapshot, true))
    }

    fn known<F: Shown>(
        &self,
        table: &Table<'_, ReadOnly<'_, F>>,
        snapshot: &Snapshot<F>,
        is_reply: bool,
    ) -> Known {
        let (client, frontend) = ends(&snapshot.connection.client());
        let (source, backend) = ends(&snapshot.connection.translated());
        Known {
            is_reply,
            client,
            frontend,
            source,
            backend,
            phase: snapshot.phase(),
            idle: snapshot.idle(self.now),
            is_over: table.is_forgotten(snapshot, self.now),
            index: snapshot.connection.backend,
        }
    }
}
