//! The kernel object: loaded with its constants and sizes, its tables and programs taken out.

mod flows;
mod hooks;
mod kept;
mod listing;
pub(crate) mod loading;

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    io,
    net::IpAddr,
    num::NonZeroU64,
    path::{Path, PathBuf},
    sync::Arc,
};

use aya::{
    Ebpf,
    programs::{SchedClassifier, Xdp},
};
use ipnet::IpNet;
use shunt_common::{Guarded, V4, V6, registry};
use tokio::{sync::watch::Receiver, task::JoinHandle};

use shunt_model::{Changes, Frontend, FrontendKind, Locations, Protocol};

use crate::{
    attach::{
        attachments::Attachments, cgroup, expedite::Expedited, release::release,
        reverse_paths::ReversePaths, screen_watch::ScreenWatch, screens::Screens,
        selection::Selection, sockets::Sockets, uplinks::Uplinks,
    },
    conntrack::connections::Connections,
    error::{DatapathError, SocketError, TableError},
    handover::{
        outgrown::Moves,
        phases::Phases,
        steps::{Handover, Terms},
    },
    maps::{
        clock::Clock,
        counters::Counters,
        families::Families,
        guard_table::GuardTable,
        interface_table::InterfaceTable,
        kernel_services::KernelServices,
        kernel_tables::KernelTables,
        location_table::{LocationTable, LocationsBefore},
        node_table::{NodeBefore, NodeTable},
        path_table::PathTable,
        peers::Peers,
        station_table::StationTable,
        table_use::TableUse,
        tables::Tables,
        uplink_table::UplinkTable,
        variables::{UnknownConnections, Variables},
    },
    netlink::links::KnownLinks,
    object::{
        all_tables::AllTables,
        copies::TableCopies,
        loaded::Loaded,
        opened::Opened,
        options::DatapathOptions,
        packet_log::{self, PacketLogError},
        pods::PodInterfaces,
        programs,
        sockets::{SocketLb, SocketOptions},
    },
    pins::{self, cleanup::Removed, error::PinError, held::PinState, layout::Layout},
    publish::{
        dual_publisher::DualPublisher,
        maglev::{MaglevUse, ReadyTables, Recipe},
        read_back::LiveFrontend,
        services::Services,
    },
    routes,
    sweep::stale::{StaleSockets, Swept},
    sys::grace,
};

/// The loaded object: programs to attach, tables to write.
#[derive(Debug)]
pub struct Datapath {
    object: Loaded,
    copies: Arc<TableCopies>,
    /// Held for programs that report connections.
    tables: Arc<AllTables>,
    links: KnownLinks,
    selection: Selection,
    attachments: Attachments,
    uplinks: Uplinks,
    uplink_table: UplinkTable,
    sockets: Sockets,
    publisher: DualPublisher<KernelTables<V4>, KernelTables<V6>>,
    locations_v4: LocationTable<V4>,
    locations_v6: LocationTable<V6>,
    variables: Variables,
    node_v4: NodeTable<V4>,
    node_v6: NodeTable<V6>,
    paths_v4: PathTable<V4>,
    paths_v6: PathTable<V6>,
    /// The kernel's routes, once they are followed.
    routes: Option<Receiver<Arc<routes::Known>>>,
    /// The number of changes of the node's addresses.
    node_writes: u64,
    /// `None` if nothing is done about other packets for services' addresses.
    guard: (GuardTable<V4>, GuardTable<V6>),
    connections: Connections,
    counters: Arc<Counters>,
    interfaces: InterfaceTable,
    pods: PodInterfaces,
    stations: StationTable,
    peers: Option<Peers>,
    /// Once what others have on the devices of pods is followed.
    screen_watch: Option<ScreenWatch>,
    screens: Screens,
    /// The setting `rp_filter` of interfaces, once it is followed.
    reverse_paths: Option<Receiver<ReversePaths>>,
    /// Settings that the programs know.
    known_reverse_paths: ReversePaths,
    stale_sockets: Arc<StaleSockets>,
    /// Layout of what is pinned, if anything is.
    layout: Option<Layout>,
    /// Until no hook has a program that knows other tables.
    handover: Option<Handover>,
    /// As long as some hooks may have programs that write smaller tables.
    moves: Option<Moves>,
    /// True once all pinned tables are ours.
    has_taken_over: bool,
    pin_state: PinState,
}

/// The outcome of opening a datapath.
enum Opening {
    /// It is loaded.
    Ready(Box<Datapath>),
    /// The agent stopped it before that.
    Stopped {
        /// True if nothing is translated.
        is_idle: bool,
    },
}

impl Datapath {
    /// The program at the ingress of a client's interface.
    pub const INGRESS: &str = programs::INGRESS;
    /// The program at its egress.
    pub const EGRESS: &str = programs::EGRESS;
    /// The program at the ingress of an interface whose packets have no link-layer header.
    pub const INGRESS_L3: &str = programs::INGRESS_L3;
    /// The program at its egress.
    pub const EGRESS_L3: &str = programs::EGRESS_L3;
    /// The program that the one at ingress hands packets of IPv6 over to.
    pub const INGRESS_V6: &str = programs::INGRESS_V6;
    /// The program that the one at egress hands packets of IPv6 over to.
    pub const EGRESS_V6: &str = programs::EGRESS_V6;

    /// Opens the datapath as [`Self::load`] does, with programs that `verify` verifies, by their names. `verify`
    /// returns none if it was stopped.
    fn open(
        options: &DatapathOptions,
        verify: impl FnOnce(Ebpf, Vec<&'static str>) -> io::Result<Option<Ebpf>>,
    ) -> Result<Opening, DatapathError> {
        grace::probe()?;
        // Before anything is touched.
        let sockets = Sockets::open(&options.sockets)?;
        let Opened {
            mut ebpf,
            copies,
            tables,
            counters,
            pins,
            takeover,
            outgrown,
            timeouts,
        } = Opened::new(options)?;
        let (pins, layout) = pins.unzip();
        let handover = match &pins {
            Some(pins) => {
                let terms = Terms {
                    seeds: takeover.seeds,
                    timeouts,
                };
                Handover::begin(Phases::open(&ebpf)?, pins, takeover.from, terms)?
            }
            None => None,
        };
        let moves = pins.as_ref().map(|pins| Moves::begin(pins, outgrown));
        let uplink_table = UplinkTable::take(&mut ebpf)?;
        let (node_v4, node_v6) = nodes(&ebpf, options)?;
        let (paths_v4, paths_v6) = paths(&mut ebpf, options)?;
        let variables = Variables::open(&ebpf)?;
        let connections = Connections::open(
            &ebpf,
            Clock::open()?,
            variables.clone(),
            takeover.seeds,
            timeouts,
        )?;
        let source_ranges = [registry::FamilyMaps::V4, registry::FamilyMaps::V6]
            .map(|maps| copies.room(maps.source_ranges.name));
        let mut this = Self {
            stale_sockets: Arc::new(StaleSockets::open(&mut ebpf, swept(&options.sockets))?),
            publisher: DualPublisher::counting(
                KernelTables::take(&mut ebpf, variables.clone())?,
                KernelTables::take(&mut ebpf, variables.clone())?,
                options.families,
                Services::of(KernelServices::take(&mut ebpf, options.count_traffic)?),
            ),
            locations_v4: LocationTable::take(&mut ebpf)?,
            locations_v6: LocationTable::take(&mut ebpf)?,
            variables,
            node_v4,
            node_v6,
            paths_v4,
            paths_v6,
            routes: None,
            node_writes: 0,
            guard: (GuardTable::take(&mut ebpf)?, GuardTable::take(&mut ebpf)?),
            connections,
            counters: Arc::new(counters),
            interfaces: InterfaceTable::take(&mut ebpf)?,
            pods: options.pods.interfaces.clone(),
            stations: StationTable::take(&ebpf)?,
            peers: options
                .redirect
                .then(|| Peers::take(&mut ebpf))
                .transpose()?,
            screen_watch: None,
            screens: Screens::new(),
            reverse_paths: None,
            known_reverse_paths: ReversePaths::default(),
            object: Loaded::new(ebpf, pins, options.families.ipv6),
            copies: Arc::new(copies),
            tables: Arc::new(tables),
            links: KnownLinks::default(),
            selection: Selection::new(options.excluded_interfaces.clone()),
            attachments: Attachments::default(),
            uplinks: Uplinks::new(
                options.xdp.clone(),
                Selection::new(options.excluded_interfaces.clone()),
            ),
            uplink_table,
            sockets,
            layout,
            handover,
            moves: moves.transpose()?,
            has_taken_over: false,
            pin_state: PinState::default(),
        };
        this.publisher.set_source_range_capacity(source_ranges);
        let mut names = this.object.always().to_vec();
        names.extend(this.uplinks.are_any().then_some(programs::XDP));
        names.extend(this.sockets.wanted());
        let Some(object) = this.object.verified(|ebpf| verify(ebpf, names))? else {
            // Tables that cannot be read may be in use.
            return Ok(Opening::Stopped {
                is_idle: this.publisher.is_empty().unwrap_or(false)
                    && this.connections.is_empty().unwrap_or(false),
            });
        };
        this.object = object;
        this.show_located();
        Ok(Opening::Ready(Box::new(this)))
    }

    /// The program of this name, loaded.
    ///
    /// # Errors
    ///
    /// If there is none, or the kernel does not take it.
    pub fn program(&mut self, name: &'static str) -> Result<&mut SchedClassifier, DatapathError> {
        self.object.program(name)
    }

    /// The XDP program, loaded.
    ///
    /// # Errors
    ///
    /// If the kernel does not take it.
    pub fn xdp_program(&mut self) -> Result<&mut Xdp, DatapathError> {
        self.object.xdp_program()
    }

    /// The object's tables and constants, to be copied while others write there.
    pub const fn copies(&self) -> &Arc<TableCopies> {
        &self.copies
    }

    /// The loaded object, for what is not wrapped here: the programs' log.
    pub const fn ebpf_mut(&mut self) -> &mut Ebpf {
        self.object.ebpf_mut()
    }

    /// Forwards the programs' messages to the `log` crate until the task is aborted.
    ///
    /// # Errors
    ///
    /// If the log cannot be opened or waited for.
    pub fn forward_packet_log(&mut self) -> Result<JoinHandle<()>, PacketLogError> {
        packet_log::forward(self.object.ebpf_mut())
    }

    /// Returns the setting for segments of connections that the programs do not know: at first, they open one.
    /// To be set before [`Self::adopt_interfaces`], from which on the programs are ours.
    pub fn unknown_connections(&self) -> UnknownConnections {
        UnknownConnections::new(self.variables.clone())
    }

    /// The connections, to be looked at.
    pub fn connections(&self) -> Connections {
        self.connections.clone()
    }

    /// The frontends that packets find, sorted by address, port and protocol.
    ///
    /// # Errors
    ///
    /// If the kernel refuses to read a table.
    pub fn live(&self) -> Result<Vec<LiveFrontend>, TableError> {
        self.publisher.live()
    }

    /// The frontends' publisher, whose tables are read in pieces.
    pub const fn publisher(&self) -> &DualPublisher<impl Tables<V4>, impl Tables<V6>> {
        &self.publisher
    }

    /// Returns whether frontends with this key are put into the tables.
    pub const fn translates(&self, key: &shunt_model::FrontendKey) -> bool {
        self.publisher.families().has(key.address)
    }

    /// The families that are translated.
    pub const fn families(&self) -> Families {
        self.publisher.families()
    }

    /// Returns whether the kernel holds no frontend from any writer.
    ///
    /// # Errors
    ///
    /// If the tables cannot be read.
    pub fn is_empty(&self) -> Result<bool, TableError> {
        self.publisher.is_empty()
    }

    /// Returns the use of the tables of frontends, slots, backends and service ports.
    pub fn table_use(&self) -> Vec<TableUse> {
        let mut tables = self.publisher.table_use();
        tables.push(self.services().table_use());
        tables
    }

    /// The number of source ranges that there is room for, of IPv4 and of IPv6.
    pub const fn source_range_capacity(&self) -> [u32; 2] {
        self.publisher.source_range_capacity()
    }

    /// The Maglev tables, and whose do not fit.
    pub fn maglev_use(&self) -> MaglevUse {
        self.publisher.maglev_use()
    }

    /// Returns the counts of each service port.
    pub const fn services(&self) -> &Arc<Services> {
        self.publisher.services()
    }

    /// The programs' counters.
    pub const fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Returns the IPv4 address that connections go on from if they need SNAT.
    pub fn snat_source_v4(&self) -> Option<IpAddr> {
        self.node_v4.snat_source()
    }

    /// Returns the IPv6 address that connections go on from if they need SNAT.
    pub fn snat_source_v6(&self) -> Option<IpAddr> {
        self.node_v6.snat_source()
    }

    /// Makes `own` this node's addresses, where its interfaces have the addresses `host`: SNAT
    /// takes one that the host has, if there is one. Returns the number of writes.
    pub fn set_node_ips(&mut self, own: &BTreeSet<IpAddr>, host: &BTreeSet<IpAddr>) -> u64 {
        let writes = self.node_v4.set(own, host) + self.node_v6.set(own, host);
        self.node_writes += writes;
        self.show_located();
        writes
    }

    /// Follows the kernel's routes from now on, and returns their contents as these change. To be called before
    /// [`Self::adopt_interfaces`].
    ///
    /// # Errors
    ///
    /// If the kernel reports no changes, or there is no thread.
    pub fn follow_routes(&mut self) -> io::Result<Receiver<Arc<routes::Known>>> {
        let known = self.routes.insert(routes::follow()?);
        known.mark_changed();
        let known = known.clone();
        self.use_routes();
        Ok(known)
    }

    /// Has the programs know the ways that the kernel's routes give now.
    fn use_routes(&mut self) {
        let Some(known) = &mut self.routes else {
            return;
        };
        if !known.has_changed().unwrap_or(false) {
            return;
        }
        let known = Arc::clone(&known.borrow_and_update());
        self.paths_v4.set(&known.ways);
        self.paths_v6.set(&known.ways);
        let are_any_narrow = self.paths_v4.are_any_narrow() || self.paths_v6.are_any_narrow();
        self.variables.set_narrow(are_any_narrow);
        self.variables
            .set_rules(known.are_by_sender_v4, known.are_by_sender_v6);
    }

    /// Returns the programs' knowledge of this node.
    pub fn node(&self) -> NodeBefore {
        NodeBefore {
            v4: self.node_v4.state(),
            v6: self.node_v6.state(),
        }
    }

    /// Takes back what was set of this node since.
    pub fn restore_node(&mut self, before: &NodeBefore) {
        let NodeBefore { v4, v6 } = before;
        self.node_writes += self.node_v4.restore(v4) + self.node_v6.restore(v6);
        self.show_located();
    }

    /// Has the programs know the nodes where addresses are, those that have none left out. Returns what was
    /// known of these addresses.
    pub fn add_locations(&mut self, locations: &Locations) -> LocationsBefore {
        let before = LocationsBefore {
            v4: self.locations_v4.add(locations),
            v6: self.locations_v6.add(locations),
        };
        self.show_located();
        before
    }

    /// Has the programs forget the nodes of addresses that have none, also of those that are not named if
    /// the others are all.
    pub fn remove_locations(&mut self, locations: &Locations) {
        self.locations_v4.remove(locations);
        self.locations_v6.remove(locations);
        self.show_located();
    }

    /// Takes back what was added.
    pub fn restore_locations(&mut self, before: LocationsBefore) {
        let LocationsBefore { v4, v6 } = before;
        self.locations_v4.restore(v4);
        self.locations_v6.restore(v6);
        self.show_located();
    }

    /// Has the programs know whether any node is known, and that what they remember may not be so any more.
    fn show_located(&self) {
        let (v4, v6) = (&self.locations_v4, &self.locations_v6);
        let is_any = !(v4.is_empty() && v6.is_empty());
        let changes = v4.changes() + v6.changes() + self.node_writes;
        let changes = NonZeroU64::MIN.saturating_add(changes);
        self.variables.set_located(is_any.then_some(changes));
    }

    /// Makes these all addresses that services have, with the ranges that ClusterIPs are taken from.
    /// `machines` have theirs, even if services claim it; of one with two the last counts.
    pub fn set_service_addresses(
        &mut self,
        addresses: impl Iterator<Item = (IpAddr, FrontendKind)>,
        ranges: &BTreeSet<IpNet>,
        machines: impl Iterator<Item = (IpAddr, Machine)>,
    ) {
        let (v4, v6) = &mut self.guard;
        let mut wanted = BTreeMap::new();
        for (address, kind) in addresses {
            if let Some(new) = guarded(kind) {
                let known = wanted.entry(address).or_insert(new);
                *known = new.min(*known);
            }
        }
        for (address, machine) in machines {
            let is_in = |range: &IpNet| range.contains(&address);
            if wanted.contains_key(&address) || ranges.iter().any(is_in) {
                wanted.insert(address, machine.guarded());
            }
        }
        v4.set(&wanted);
        v6.set(&wanted);
        v4.set_ranges(ranges);
        v6.set_ranges(ranges);
    }

    /// Sets the owner of an address: a service of this kind, or no service; and the `machine` that has it.
    pub fn change_service_address(
        &mut self,
        address: IpAddr,
        kind: Option<FrontendKind>,
        machine: Option<Machine>,
    ) {
        let guarded = match (kind.and_then(guarded), machine) {
            (Some(_), Some(machine)) => Some(machine.guarded()),
            (None, Some(_)) => return,
            (guarded, None) => guarded,
        };
        let (v4, v6) = &mut self.guard;
        v4.change(address, guarded);
        v6.change(address, guarded);
    }

    /// Returns whether packets to pods of this node go there in one hop, so that the interfaces of backends
    /// are to have the programs too.
    pub const fn redirects(&self) -> bool {
        self.peers.is_some()
    }

    /// Returns the recipes of the Maglev tables that publishing `changes` has to make.
    pub fn lacking_tables(&self, changes: &Changes) -> HashSet<Recipe> {
        self.publisher.lacking_tables(changes)
    }

    /// Publishes `changes`, all of them or none. Returns the number of writes to the tables: entries,
    /// cells, slots and backends. Maglev tables that are `ready` are not made for it.
    ///
    /// # Errors
    ///
    /// If the tables do not take them; nothing is changed then.
    pub fn publish(&mut self, changes: &Changes, ready: &ReadyTables) -> Result<u64, TableError> {
        let Changes { added, changed, .. } = changes;
        self.announce(added.iter().chain(changed), false);
        let before = self.publisher.departures();
        let published = self.publisher.publish_with(changes, ready);
        // A UDP socket may wait for a frontend, or for its first backend. Of an endpoint that is only unready the backend
        // left before, and its leaving for good changes nothing in the tables.
        let mut new = added.iter().chain(changed);
        let may_serve = new.any(|(key, _)| key.protocol == Protocol::Udp);
        self.tell_sweeper(before, may_serve || self.stale_sockets.has_spared());
        published
    }

    /// Makes `snapshot` all there is, whatever the tables hold: they are read back, and what is
    /// right in them is not touched. Returns the number of writes.
    ///
    /// # Errors
    ///
    /// If the tables cannot be read or do not take it; no packet sees a change then.
    pub fn resync(
        &mut self,
        snapshot: &[(shunt_model::FrontendKey, Frontend)],
    ) -> Result<u64, TableError> {
        self.announce(snapshot.iter(), true);
        let before = self.publisher.departures();
        let published = self.publisher.resync(snapshot);
        // Also of what has left while no agent was there.
        self.tell_sweeper(before, published.is_ok());
        published
    }

    /// Announces the frontends that there are going to be, before there are any.
    fn announce<'a>(
        &mut self,
        frontends: impl Iterator<Item = &'a (shunt_model::FrontendKey, Frontend)> + Clone,
        all: bool,
    ) {
        let addresses = frontends.map(|(key, _)| key.address);
        self.node_v4.announce(addresses.clone(), all);
        self.node_v6.announce(addresses, all);
    }

    /// Returns whether [`Self::reclaim`] has anything to do.
    pub fn has_retired(&self) -> bool {
        self.publisher.has_retired()
    }

    /// Waits for a grace period and frees what was replaced before it.
    ///
    /// # Errors
    ///
    /// If the kernel cannot wait; nothing is freed then.
    pub fn reclaim(&mut self) -> Result<(), TableError> {
        let before = self.publisher.departures();
        let reclaimed = self.publisher.reclaim();
        self.tell_sweeper(before, false);
        reclaimed
    }

    /// Notifies the sweeper that backends have left since there were `before` departures, or that it is
    /// to look in any case.
    fn tell_sweeper(&self, before: u64, in_any_case: bool) {
        if in_any_case || self.publisher.departures() != before {
            self.stale_sockets.bell.ring();
        }
    }

    /// The sockets without a backend, to be cured.
    pub const fn stale_sockets(&self) -> &Arc<StaleSockets> {
        &self.stale_sockets
    }
}

/// Opens the tables of this node's addresses.
fn nodes(
    ebpf: &Ebpf,
    options: &DatapathOptions,
) -> Result<(NodeTable<V4>, NodeTable<V6>), DatapathError> {
    let DatapathOptions {
        snat_v4,
        snat_v6,
        hairpin_v4,
        hairpin_v6,
        pod_cidrs,
        ..
    } = options;
    Ok((
        NodeTable::open(ebpf, *snat_v4, *hairpin_v4, pod_cidrs)?,
        NodeTable::open(ebpf, *snat_v6, *hairpin_v6, pod_cidrs)?,
    ))
}

/// Takes the tables of ways out of the loaded object.
fn paths(
    ebpf: &mut Ebpf,
    options: &DatapathOptions,
) -> Result<(PathTable<V4>, PathTable<V6>), DatapathError> {
    let DatapathOptions {
        snat_v4,
        snat_v6,
        pod_cidrs,
        ..
    } = options;
    Ok((
        PathTable::take(ebpf, snat_v4.is_some(), pod_cidrs)?,
        PathTable::take(ebpf, snat_v6.is_some(), pod_cidrs)?,
    ))
}

/// Returns the sockets that leave a backend that is gone: those that are translated, of TCP if an option requires it.
fn swept(options: &SocketOptions) -> Swept {
    let udp = options.mode != SocketLb::Off;
    Swept {
        udp,
        tcp: udp && options.terminate_tcp,
    }
}

/// The machine that has an address, which is its stack's then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Machine {
    /// This host: one of its interfaces has it.
    This,
    /// Another node.
    Other,
}

impl Machine {
    const fn guarded(self) -> Guarded {
        match self {
            Self::This => Guarded::Host,
            Self::Other => Guarded::Node,
        }
    }
}

/// Returns the guard's kind for addresses of this kind.
const fn guarded(kind: FrontendKind) -> Option<Guarded> {
    match kind {
        FrontendKind::ClusterIp => Some(Guarded::ClusterIp),
        FrontendKind::ExternalIp | FrontendKind::LoadBalancerIp => Some(Guarded::External),
        FrontendKind::NodePort => None,
    }
}

/// Removes what is pinned at `dir`, and with it the translation; `None` if there is no such
/// directory. Grace periods that an agent expedited when it was killed take their usual time again.
///
/// # Errors
///
/// If an agent uses it, if it is not on a bpffs, or holds what no agent has put there.
pub fn cleanup(dir: &Path) -> Result<Option<Removed>, PinError> {
    let removed = pins::cleanup::cleanup(dir, release)?;
    Expedited::end_left_over();
    Ok(removed)
}

/// Mounts a bpf file system where `dir` is to be, if there is none.
///
/// # Errors
///
/// If `dir` is elsewhere than on one, or the kernel refuses.
pub fn mount_bpffs(dir: &Path) -> Result<(), PinError> {
    pins::bpffs::ensure(dir)
}

/// Mounts the root of all cgroups at a place of ours, unless it is there, and returns that: an agent in
/// a container finds it there, which sees its own cgroup in place of the root elsewhere. `None` if the
/// root cannot be seen from here.
///
/// # Errors
///
/// If it cannot be mounted.
pub fn mount_root_cgroup() -> Result<Option<PathBuf>, SocketError> {
    cgroup::provide_root()
}
