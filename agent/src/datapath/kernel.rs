//! The kernel object: loaded with its constants and sizes, its tables and programs taken out.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
    sync::Arc,
};

use aya::{Ebpf, EbpfLoader, maps::Map, programs::SchedClassifier};
use ipnet::IpNet;
use shunt_common::{Cidr, FrontendKey, PodCidrs, PortRange, V4};
use tracing::warn;

use super::{
    Connections, Conntrack, DatapathError, Publisher, TableError, TableSizes, Tables as _,
    counters::Counters,
    family::{FromIp, table_key},
    kernel_tables::{self, KernelTables, TableNames},
    node_table::NodeTable,
    pins::{Layout, Pins},
    raw::Raw,
    removed_for_room::RemovedForRoom,
    requirements,
    table_sizes::SizedTable,
};
use crate::renderer::{self, Changes, Frontend};

/// The kernel programs, as the build script made them.
pub(super) static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/shunt.o"));

/// How much the programs say of packets, through aya-log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum PacketLog {
    /// Nothing; the verifier removes the code.
    #[default]
    Off,
    /// Each connection that is opened and each packet that is dropped.
    Debug,
}

/// What is fixed while the programs are loaded.
#[derive(Debug, Clone)]
pub struct DatapathOptions {
    /// Where this node's pods take their addresses from.
    pub pod_cidrs: Vec<IpNet>,
    /// The IPv4 address that a pod sees when it reaches itself through its service. Nobody else
    /// may have it.
    pub hairpin_ip: Ipv4Addr,
    /// The address that connections from outside to backends on other nodes go on from; `None`:
    /// the lowest of the node's own.
    pub snat_ip: Option<Ipv4Addr>,
    /// The source ports that they, and others whose own port is taken, are given.
    pub snat_ports: PortRange,
    /// What the programs log.
    pub packet_log: PacketLog,
    /// Table sizes. Tables that are pinned already keep theirs.
    pub sizes: TableSizes,
    /// Where tables, programs and links are pinned, so that they outlive the agent.
    pub pin_dir: Option<PathBuf>,
}

impl Default for DatapathOptions {
    fn default() -> Self {
        Self {
            pod_cidrs: Vec::new(),
            // Link-local (RFC 3927), so never routed.
            hairpin_ip: Ipv4Addr::new(169, 254, 254, 1),
            snat_ip: None,
            // Below the NodePorts of Kubernetes, from 30000, and the ephemeral ports of Linux, 32768
            // to 60999. 28,961 of these are used: more than a client has ephemeral ports, so that
            // each of them gets a port that no other of that client's begins with.
            snat_ports: const { PortRange::within(1024, 29_999).unwrap() },
            packet_log: PacketLog::Off,
            sizes: TableSizes::default(),
            pin_dir: None,
        }
    }
}

/// The loaded object: programs to attach, tables to write.
pub struct Datapath {
    ebpf: Ebpf,
    v4: Publisher<V4, KernelTables<V4>>,
    node_v4: NodeTable<V4>,
    conntrack_v4: Option<Conntrack<V4>>,
    connections_v4: Connections<V4>,
    counters: Arc<Counters>,
    pins: Option<Pins>,
}

const V4_TABLES: TableNames = TableNames {
    frontends: "FRONTENDS_V4",
    cells: "CELLS_V4",
    slots: "SLOTS_V4",
    backends: "BACKENDS_V4",
    source_ranges: "SOURCE_RANGES_V4",
};

const V4_CONNTRACK: &str = "CONNTRACK_V4";

impl Datapath {
    /// The program at the ingress of a client's interface.
    pub const INGRESS: &str = "tc_ingress";
    /// The program at its egress.
    pub const EGRESS: &str = "tc_egress";

    /// Loads the object into the kernel, with the tables that are pinned, if any. Nothing is
    /// attached yet, and nothing in those tables is changed.
    ///
    /// # Errors
    ///
    /// If the kernel lacks a feature, or we a privilege (`CAP_BPF`, `CAP_NET_ADMIN`); if the pin
    /// directory is in use, or of another version.
    pub fn load(options: &DatapathOptions) -> Result<Self, DatapathError> {
        let DatapathOptions {
            pod_cidrs,
            hairpin_ip,
            snat_ip,
            snat_ports,
            packet_log,
            sizes,
            pin_dir,
        } = options;
        let snat_ports = Raw(*snat_ports);
        let hairpin_ip = u32::from_ne_bytes(hairpin_ip.octets());
        let pod_cidrs_v4 = Raw(constant_cidrs::<V4>(pod_cidrs, 0)?);
        let log_level: u8 = match packet_log {
            PacketLog::Off => 0,
            PacketLog::Debug => aya_log::Level::Debug as u8,
        };
        let sized = sizes.tables();
        let layout = Layout::of(OBJECT, &sized)?;
        let pins = pin_dir.as_deref().map(Pins::open).transpose()?;
        let mut loader = EbpfLoader::new();
        loader
            .override_global("POD_CIDRS_V4", &pod_cidrs_v4, true)
            .override_global("HAIRPIN_IP_V4", &hairpin_ip, true)
            .override_global("SNAT_PORTS", &snat_ports, true)
            .override_global(aya_log::LEVEL, &log_level, true);
        for table in sized {
            loader.map_max_entries(table.name, table.entries);
        }
        if let Some(pins) = &pins {
            layout.check(pins)?;
            for name in layout.names() {
                loader.map_pin_path(name, pins.map(name));
            }
        }
        let mut ebpf = loader.load(OBJECT)?;
        warn_of_kept_sizes(&ebpf, &sized)?;
        for name in [Self::INGRESS, Self::EGRESS] {
            let program = classifier(&mut ebpf, name)?;
            program
                .load()
                .map_err(|source| requirements::explain(name, source))?;
            if let Some(pins) = &pins {
                pins.pin_program(name, program)?;
            }
        }
        let removed_for_room = RemovedForRoom::default();
        let connections_v4 =
            Connections::open(&ebpf, V4_CONNTRACK, "CLOCK", removed_for_room.clone())?;
        let conntrack = kernel_tables::take(&mut ebpf, V4_CONNTRACK)?;
        let node = kernel_tables::shared(&mut ebpf, "NODE_V4")?;
        let clock = kernel_tables::shared(&mut ebpf, "CLOCK")?;
        let counters = kernel_tables::take(&mut ebpf, "COUNTERS")?;
        let conntrack = Conntrack::new(conntrack, clock, removed_for_room).map_err(|source| {
            DatapathError::Map {
                name: V4_CONNTRACK,
                source,
            }
        })?;
        Ok(Self {
            v4: Publisher::new(KernelTables::take(&mut ebpf, V4_TABLES)?),
            node_v4: NodeTable::new(node, snat_ip.map(IpAddr::from)),
            conntrack_v4: Some(conntrack),
            connections_v4,
            counters: Arc::new(Counters::new(counters)),
            pins,
            ebpf,
        })
    }

    /// The loaded program of this name.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn program(&mut self, name: &'static str) -> Result<&mut SchedClassifier, DatapathError> {
        classifier(&mut self.ebpf, name)
    }

    /// The loaded object, for what is not wrapped here: the programs' log.
    pub const fn ebpf_mut(&mut self) -> &mut Ebpf {
        &mut self.ebpf
    }

    /// The IPv4 connections, for whoever collects them; `None` the second time.
    pub const fn take_conntrack(&mut self) -> Option<Conntrack<V4>> {
        self.conntrack_v4.take()
    }

    /// The IPv4 connections, for whoever only looks.
    pub fn connections(&self) -> Connections<V4> {
        self.connections_v4.clone()
    }

    /// The IPv4 frontends.
    pub(super) const fn v4(&self) -> &Publisher<V4, KernelTables<V4>> {
        &self.v4
    }

    /// Whether the kernel holds no frontend, whoever put it there.
    ///
    /// # Errors
    ///
    /// If the tables cannot be read.
    pub fn is_empty(&self) -> Result<bool, TableError> {
        Ok(self.v4.tables().frontends()?.is_empty())
    }

    /// The programs' counters.
    pub const fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Where things are pinned, if they are.
    pub(super) const fn pins(&self) -> Option<&Pins> {
        self.pins.as_ref()
    }

    /// Makes `own` this node's addresses. Gives the number of writes.
    pub fn set_node_ips(&mut self, own: &BTreeSet<IpAddr>) -> u64 {
        self.node_v4.set(own)
    }

    /// Publishes `changes`. Frontends of a family without programs are left out and counted.
    ///
    /// # Errors
    ///
    /// If the tables do not take them; nothing is changed then.
    pub fn publish(&mut self, changes: &Changes) -> Result<Published, TableError> {
        let wanted = || changes.added.iter().chain(&changes.changed);
        let v4 = of_family(wanted());
        let gone = changes.removed.iter().filter_map(table_key);
        // A frontend may have had an entry for this node's clients, and not have one now.
        let without = wanted()
            .filter(|(_, frontend)| frontend.this_node.is_none())
            .filter_map(|(key, _)| table_key(key));
        let removed: Vec<FrontendKey<V4>> =
            gone.clone().chain(gone.chain(without).map(here)).collect();
        let before = self.v4.writes();
        self.v4.publish(&v4, &removed)?;
        Ok(Published {
            skipped: skipped::<V4>(wanted()),
            writes: self.v4.writes() - before,
        })
    }

    /// Makes `snapshot` all there is, whatever the tables hold: they are read back, and what is
    /// right in them is not touched.
    ///
    /// # Errors
    ///
    /// If the tables cannot be read or do not take it; no packet sees a change then.
    pub fn resync(
        &mut self,
        snapshot: &[(renderer::FrontendKey, Frontend)],
    ) -> Result<Published, TableError> {
        let v4 = of_family(snapshot.iter());
        let before = self.v4.writes();
        self.v4.resync(&v4)?;
        Ok(Published {
            skipped: skipped::<V4>(snapshot.iter()),
            writes: self.v4.writes() - before,
        })
    }

    /// Whether [`Self::reclaim`] has anything to do.
    pub const fn has_retired(&self) -> bool {
        self.v4.has_retired()
    }

    /// Waits for a grace period and frees what was replaced before it.
    ///
    /// # Errors
    ///
    /// If the kernel cannot wait; nothing is freed then.
    pub fn reclaim(&mut self) -> Result<(), TableError> {
        self.v4.reclaim()
    }
}

/// What was done to the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Published {
    /// Frontends that were left out because their family has no programs yet.
    pub skipped: usize,
    /// Writes to the tables: entries, cells, slots and backends.
    pub writes: u64,
}

/// The entries of family `F`'s table that the frontends lead to: one each, and before it the one
/// that clients on this node have in its place, if any.
fn of_family<'a, F: FromIp>(
    frontends: impl Iterator<Item = &'a (renderer::FrontendKey, Frontend)>,
) -> Vec<(FrontendKey<F>, &'a Frontend)> {
    let of_family = frontends.filter_map(|(key, frontend)| Some((table_key(key)?, frontend)));
    of_family
        .flat_map(|(key, frontend)| {
            let this_node = frontend.this_node.as_deref();
            let this_node = this_node.map(|frontend| (here(key), frontend));
            this_node.into_iter().chain([(key, frontend)])
        })
        .collect()
}

/// The key of what clients on this node have in the frontend's place.
const fn here<F: FromIp>(key: FrontendKey<F>) -> FrontendKey<F> {
    key.scoped(FrontendKey::<F>::THIS_NODE)
}

/// How many of the frontends are of another family than `F`.
fn skipped<'a, F: FromIp>(
    frontends: impl Iterator<Item = &'a (renderer::FrontendKey, Frontend)>,
) -> usize {
    frontends
        .filter(|(key, _)| table_key::<F>(key).is_none())
        .count()
}

/// A pinned table has the size that it was made with, and the tables' contents are worth more
/// than a new size.
fn warn_of_kept_sizes(ebpf: &Ebpf, sized: &[SizedTable]) -> Result<(), DatapathError> {
    for &SizedTable {
        name,
        entries,
        flag,
    } in sized
    {
        let map = ebpf.map(name).ok_or(DatapathError::Missing(name))?;
        let (Map::Array(data) | Map::HashMap(data) | Map::LpmTrie(data) | Map::LruHashMap(data)) =
            map
        else {
            continue;
        };
        let info = data
            .info()
            .map_err(|source| DatapathError::Map { name, source })?;
        let pinned = info.max_entries();
        if pinned != entries {
            warn!(
                "the pinned table {name} keeps its {pinned} entries, although {flag} says \
                 {entries}; `shunt cleanup` lets the next agent begin with new tables"
            );
        }
    }
    Ok(())
}

fn classifier<'a>(
    ebpf: &'a mut Ebpf,
    name: &'static str,
) -> Result<&'a mut SchedClassifier, DatapathError> {
    ebpf.program_mut(name)
        .ok_or(DatapathError::Missing(name))?
        .try_into()
        .map_err(|source| DatapathError::Program { name, source })
}

/// The ranges of family `F` among `networks`, as the programs hold them.
fn constant_cidrs<F: FromIp>(
    networks: &[IpNet],
    zero: F::Address,
) -> Result<PodCidrs<F>, DatapathError> {
    let ranges: Vec<Cidr<F>> = networks
        .iter()
        .filter_map(|network| {
            Some(Cidr {
                address: F::address(network.network())?,
                mask: F::address(network.netmask())?,
            })
        })
        .collect();
    let mut constant = PodCidrs::none(zero);
    let room = constant
        .cidrs
        .get_mut(..ranges.len())
        .ok_or(DatapathError::TooManyPodCidrs {
            given: ranges.len(),
            limit: PodCidrs::<F>::CAPACITY,
        })?;
    room.copy_from_slice(&ranges);
    constant.count = ranges.len() as u32;
    Ok(constant)
}
