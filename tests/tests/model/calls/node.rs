//! The real thing: an agent whose programs are at the cgroup of this process.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU32,
    os::fd::{AsFd as _, AsRawFd},
    path::Path,
};

use aya::{
    Pod,
    maps::{Map, MapData, MapError, SkStorage},
};
use shunt_common::{
    Counter,
    registry::{self, SOCKETS_ASKED, SOCKETS_BEFORE, SOCKETS_CONNECTED},
    socket::{Asked, Connected, PAIR_WORDS, PAIRS},
};
use shunt_datapath::{
    Datapath, DatapathOptions, Families, GuardOptions, SocketLb, SocketOptions, TableCopies,
    TableSizes,
};
use shunt_model::{Balancing, RenderError, RenderOptions, Renderer};
use shunt_programs::Remembered;
use shunt_runtime::{Agent, ApplyError};
use shunt_tests::passing;

use crate::{addresses, kernel::LONG};

/// Sizes that every event of a case fits into.
const SIZES: TableSizes = TableSizes {
    frontends: 1024,
    // A Maglev table takes 257.
    slots: 16_384,
    backends: 2048,
    conntrack: 64,
    affinity: 256,
    source_ranges: 1024,
    fragments: 64,
    services: 1024,
};

/// The connections that are translated, and those that are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Sockets of the node alone.
    Host,
    /// Pods' connections too, with the guard, and with ports that are a NodePort's.
    Everything,
}

/// The addresses that are guarded.
const RANGES: &str = r#"{"event":"UpdateServiceCidrs","new":["10.96.0.0/16","fd00:96::/112"]}"#;

/// Number of words of an [`Asked`].
const ASKED_WORDS: usize = 1 + PAIRS * PAIR_WORDS;

/// An agent, and what its programs leave with sockets.
pub(crate) struct Node {
    agent: Agent,
    connected: SkStorage<MapData, [u64; PAIR_WORDS]>,
    before: SkStorage<MapData, [u64; PAIR_WORDS]>,
    asked: SkStorage<MapData, [u64; ASKED_WORDS]>,
    /// The counters at the last read.
    counted: BTreeMap<u32, u64>,
}

impl Node {
    /// With programs at this cgroup, for this thread's network namespace.
    pub(crate) fn load(way: Way, cgroup: &Path) -> Self {
        let is_all = way == Way::Everything;
        let options = DatapathOptions {
            pod_cidrs: addresses::POD_CIDRS
                .map(|cidr| cidr.parse().unwrap())
                .into(),
            sockets: SocketOptions {
                mode: if is_all {
                    SocketLb::All
                } else {
                    SocketLb::Host
                },
                required: true,
                cgroup: Some(cgroup.to_owned()),
                local_node_ports: Families::default(),
                protect_node_ports: is_all,
                terminate_tcp: false,
            },
            guard: GuardOptions {
                guard: is_all,
                echo: false,
            },
            sizes: SIZES,
            ..DatapathOptions::default()
        };
        let renderer = Renderer::new(RenderOptions {
            node_ips: BTreeSet::from(addresses::NODE.both()),
            balancing: Balancing {
                local_backend_weight: NonZeroU32::new(addresses::LOCAL_BACKEND_WEIGHT).unwrap(),
                ..Balancing::default()
            },
            ..RenderOptions::default()
        });
        let mut datapath = Datapath::load(&options).unwrap();
        datapath.attach_sockets().unwrap();
        let connected = storage(&mut datapath, SOCKETS_CONNECTED);
        let before = storage(&mut datapath, SOCKETS_BEFORE);
        let asked = storage(&mut datapath, SOCKETS_ASKED);
        let mut agent = Agent::new(renderer, datapath, BTreeSet::new());
        agent
            .set_host_addresses(addresses::NODE.both().into())
            .unwrap();
        Self {
            agent,
            connected: connected.try_into().unwrap(),
            before: before.try_into().unwrap(),
            asked: asked.try_into().unwrap(),
            counted: BTreeMap::new(),
        }
    }

    /// Forgets all services and clients.
    pub(crate) fn clear(&mut self, resync: &str) {
        assert!(self.apply(resync), "an empty snapshot is not refused");
        assert!(self.apply(RANGES), "ranges are not refused");
        self.reclaim();
        self.pass(LONG);
        self.count();
    }

    /// Applies an event; `false` if its weights are refused.
    pub(crate) fn apply(&mut self, event: &str) -> bool {
        let decoded = shunt_model::decode(event).unwrap_or_else(|error| panic!("{error}: {event}"));
        match self.agent.apply(decoded) {
            Ok(_) => true,
            Err(ApplyError::Render(RenderError::WeightOverflow { .. })) => false,
            Err(error) => panic!("{error}: {event}"),
        }
    }

    /// Waits for a grace period and frees what was replaced.
    pub(crate) fn reclaim(&mut self) {
        self.agent.datapath_mut().reclaim().unwrap();
    }

    /// Lets time pass.
    pub(crate) fn pass(&mut self, seconds: u32) {
        let ebpf = self.agent.datapath_mut().ebpf_mut();
        passing::let_pass(|map| passing::of_object(ebpf, map), seconds).unwrap();
    }

    /// The tables, to be read.
    pub(crate) fn copies(&self) -> &TableCopies {
        self.agent.datapath().copies()
    }

    /// Returns the counts since the last call, by the number of the counter.
    pub(crate) fn count(&mut self) -> BTreeMap<u32, u64> {
        let counters = self.agent.datapath().counters().read().unwrap();
        let now: BTreeMap<u32, u64> = counters
            .into_iter()
            .map(|(counter, count)| (counter as u32, count))
            .collect();
        let before = std::mem::replace(&mut self.counted, now);
        let since = self.counted.iter().map(|(counter, now)| {
            let before = before.get(counter).copied().unwrap_or_default();
            (*counter, now - before)
        });
        since.filter(|(_, count)| *count > 0).collect()
    }

    /// Returns the programs' state of a socket.
    pub(crate) fn remembered(&self, socket: &impl AsRawFd) -> Remembered {
        let asked = read(&self.asked, socket).map(|[last, pairs @ ..]: [u64; ASKED_WORDS]| {
            let (pairs, _) = pairs.as_chunks::<PAIR_WORDS>();
            Asked {
                last,
                pairs: std::array::from_fn(|place| Connected(pairs[place])),
            }
        });
        Remembered {
            connected: read(&self.connected, socket).map(Connected),
            before: read(&self.before, socket).map(Connected),
            asked,
        }
    }
}

/// The name of the counter with this number.
pub(crate) fn counter_name(number: u32) -> &'static str {
    Counter::ALL[number as usize].name()
}

/// A table of what sockets have, opened once more.
fn storage(datapath: &mut Datapath, map: registry::Map) -> Map {
    let Some(Map::SkStorage(data)) = datapath.ebpf_mut().map(map.name) else {
        panic!("no table {}", map.name);
    };
    let again = data.fd().as_fd().try_clone_to_owned().unwrap();
    Map::from_map_data(MapData::from_fd(again).unwrap()).unwrap()
}

fn read<V: Pod>(table: &SkStorage<MapData, V>, socket: &impl AsRawFd) -> Option<V> {
    match table.get(socket, 0) {
        Ok(value) => Some(value),
        Err(MapError::KeyNotFound) => None,
        Err(error) => panic!("what a socket has is not read: {error}"),
    }
}
