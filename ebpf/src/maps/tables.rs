//! The tables, one set a family. The sizes here are defaults that the agent overrides.

use aya_ebpf::{
    bindings::{BPF_F_MMAPABLE, BPF_F_NO_PREALLOC, bpf_fib_lookup},
    btf_maps::{Array, HashMap, LpmTrie, LruHashMap, PerCpuArray},
    macros::btf_map,
};
use shunt_common::{
    AffinityEntry, AffinityKey, Backend, FilterPlace, FragmentEntry, FragmentKey, FrontendKey,
    InterfaceRole, NodeIps, Path, ServiceCidrs, Slot, SourceRange, Uplink, V4, V6,
};

use crate::maps::{
    conntrack::Tracked,
    constants::Constants,
    handover::HandsOver,
    scratch::{Arrival, Halfway, Hop, Opening, Origin, Way},
    variables::Ruled,
};

const MMAPABLE: usize = BPF_F_MMAPABLE as usize;
const NO_PREALLOC: usize = BPF_F_NO_PREALLOC as usize;

/// Frontend to its index.
pub(crate) type Frontends<F> = HashMap<FrontendKey<F>, u32, 65_536>;
/// Frontend index to the word of its cell.
pub(crate) type Cells = Array<u64, 65_536, MMAPABLE>;
/// Slices of slots, contiguous for each frontend.
pub(crate) type Slots = Array<Slot, 1_048_576, MMAPABLE>;
/// Backends by index.
pub(crate) type Backends<F> = Array<Backend<F>, 524_288, MMAPABLE>;
/// Number of connections that backends were chosen for, by the same index: [`shunt_common::BackendConnections`].
pub(crate) type BackendConnections = Array<u64, 524_288, MMAPABLE>;
/// Clients that may use a frontend; what an entry holds means nothing.
pub(crate) type SourceRanges<F> = LpmTrie<SourceRange<F>, u32, 65_536>;
/// Last backend of a client. The least recently used entry makes room for a new one: its
/// client picks again, which breaks no connection.
pub(crate) type Affinity<F> = LruHashMap<AffinityKey<F>, AffinityEntry, 65_536>;
/// Outcome of the first fragment of a datagram. The oldest entry makes room for a new one:
/// its datagram is lost, as it is where the kernel has no room to put one together.
pub(crate) type Fragments<F> = LruHashMap<FragmentKey<F>, FragmentEntry<F>, 8192>;
/// This node's own addresses, one entry.
pub(crate) type Node<F> = Array<NodeIps<F>, 1, MMAPABLE>;
/// State of a CPU while it opens a connection, one entry.
pub(crate) type Openings<F> = PerCpuArray<Opening<F>, 1>;

/// State of a CPU for the packet that its ingress program is at, one entry.
pub(crate) type Arrivals<F> = PerCpuArray<Arrival<F>, 1>;

/// Number of pods' hops that a CPU remembers; those of a network as large as this do not collide.
pub(crate) const HOPS: u32 = 4096;
/// The ways to pods of this node, by the last bits of their addresses.
pub(crate) type Hops<F> = PerCpuArray<Hop<F>, { HOPS as usize }>;

/// Number of ways that a CPU remembers of packets that its driver sends on.
pub(crate) const WAYS: u32 = 4096;
/// The ways, by the last bits of the addresses that packets have there.
pub(crate) type Ways<F> = PerCpuArray<Way<F>, { WAYS as usize }>;

/// Number of sources of packets that a CPU remembers.
pub(crate) const ORIGINS: u32 = 1024;
/// Origins of packets that are forwarded, by the last bits of their source; and destinations of packets that leave with
/// another source than the stack knows.
pub(crate) type Origins<F> = PerCpuArray<Origin<F>, { ORIGINS as usize }>;

/// Number of packets that are distinguished while they go through the stack half translated.
pub(crate) const HALVES: u32 = 4096;
/// The packets, by a hash of the tuple that they have there.
pub(crate) type Halves<F> = Array<Halfway<F>, { HALVES as usize }>;

/// The filter of addresses, see [`FilterPlace`].
pub(crate) type Addresses = Array<u64, { FilterPlace::WORDS }, MMAPABLE>;
/// The addresses that are guarded, and as whose: a [`shunt_common::Guarded`]. They take memory as they
/// come: most are never looked up.
pub(crate) type GuardedAddresses<F> =
    HashMap<<F as shunt_common::Family>::Address, u32, 65_536, NO_PREALLOC>;
/// The ranges of ClusterIPs, one entry.
pub(crate) type ClusterRanges<F> = Array<ServiceCidrs<F>, 1, MMAPABLE>;

/// On which node an address is: of a node's own address itself, of a backend's the node's that it runs on.
/// They take memory as they come: most clusters have none.
pub(crate) type Locations<F> = HashMap<
    <F as shunt_common::Family>::Address,
    <F as shunt_common::Family>::Address,
    65_536,
    NO_PREALLOC,
>;

/// The ways to addresses elsewhere, by prefix.
pub(crate) type Paths<F> = LpmTrie<<F as shunt_common::Family>::Address, Path<F>, PATHS>;
const PATHS: usize = 4096;

/// Frontend index to the number of its service port.
pub(crate) type FrontendServices = Array<u32, 65_536, MMAPABLE>;

/// A family's tables and constants.
pub(crate) trait Tables: Constants + Tracked + HandsOver + Ruled {
    fn frontends() -> &'static Frontends<Self>;
    fn cells() -> &'static Cells;
    fn slots() -> &'static Slots;
    fn backends() -> &'static Backends<Self>;
    fn backend_connections() -> &'static BackendConnections;
    fn source_ranges() -> &'static SourceRanges<Self>;
    fn affinity() -> &'static Affinity<Self>;
    fn fragments() -> &'static Fragments<Self>;
    fn node() -> &'static Node<Self>;
    fn openings() -> &'static Openings<Self>;
    fn arrivals() -> &'static Arrivals<Self>;
    fn hops() -> &'static Hops<Self>;
    fn ways() -> &'static Ways<Self>;
    fn origins() -> &'static Origins<Self>;
    fn halfway() -> &'static Halves<Self>;
    fn addresses() -> &'static Addresses;
    fn guarded() -> &'static GuardedAddresses<Self>;
    fn service_cidrs() -> &'static ClusterRanges<Self>;
    fn frontend_services() -> &'static FrontendServices;
    fn locations() -> &'static Locations<Self>;
    fn paths() -> &'static Paths<Self>;
}

/// Declares a family's tables, by the names that the kernel shows.
macro_rules! tables {
    ($family:ty: $($accessor:ident $name:ident: $table:ty,)*) => {
        $(
            #[btf_map]
            pub(crate) static $name: $table = <$table>::new();
        )*

        impl Tables for $family {
            $(
                #[inline(always)]
                fn $accessor() -> &'static $table {
                    &$name
                }
            )*
        }
    };
}

tables! { V4:
    frontends FRONTENDS_V4: Frontends<V4>,
    cells CELLS_V4: Cells,
    slots SLOTS_V4: Slots,
    backends BACKENDS_V4: Backends<V4>,
    backend_connections BACKEND_CONNECTIONS_V4: BackendConnections,
    source_ranges SOURCE_RANGES_V4: SourceRanges<V4>,
    affinity AFFINITY_V4: Affinity<V4>,
    fragments FRAGMENTS_V4: Fragments<V4>,
    node NODE_V4: Node<V4>,
    openings OPENINGS_V4: Openings<V4>,
    arrivals ARRIVALS_V4: Arrivals<V4>,
    hops HOPS_V4: Hops<V4>,
    ways WAYS_V4: Ways<V4>,
    origins ORIGINS_V4: Origins<V4>,
    halfway HALFWAY_V4: Halves<V4>,
    addresses ADDRESSES_V4: Addresses,
    guarded GUARDED_V4: GuardedAddresses<V4>,
    service_cidrs SERVICE_CIDRS_V4: ClusterRanges<V4>,
    frontend_services FRONTEND_SERVICES_V4: FrontendServices,
    locations LOCATIONS_V4: Locations<V4>,
    paths PATHS_V4: Paths<V4>,
}

tables! { V6:
    frontends FRONTENDS_V6: Frontends<V6>,
    cells CELLS_V6: Cells,
    slots SLOTS_V6: Slots,
    backends BACKENDS_V6: Backends<V6>,
    backend_connections BACKEND_CONNECTIONS_V6: BackendConnections,
    source_ranges SOURCE_RANGES_V6: SourceRanges<V6>,
    affinity AFFINITY_V6: Affinity<V6>,
    fragments FRAGMENTS_V6: Fragments<V6>,
    node NODE_V6: Node<V6>,
    openings OPENINGS_V6: Openings<V6>,
    arrivals ARRIVALS_V6: Arrivals<V6>,
    hops HOPS_V6: Hops<V6>,
    ways WAYS_V6: Ways<V6>,
    origins ORIGINS_V6: Origins<V6>,
    halfway HALFWAY_V6: Halves<V6>,
    addresses ADDRESSES_V6: Addresses,
    guarded GUARDED_V6: GuardedAddresses<V6>,
    service_cidrs SERVICE_CIDRS_V6: ClusterRanges<V6>,
    frontend_services FRONTEND_SERVICES_V6: FrontendServices,
    locations LOCATIONS_V6: Locations<V6>,
    paths PATHS_V6: Paths<V6>,
}

/// For how many backends a CPU remembers that all source ports to them are taken.
pub(crate) const EXHAUSTED: u32 = 256;
/// Connections that have no source port left, by a hash: the hash, and the tick at which that was found out.
#[btf_map]
pub(crate) static EXHAUSTIONS: PerCpuArray<u64, { EXHAUSTED as usize }> = PerCpuArray::new();

/// Nonzero if a connection to a backend itself has ever been given another source port, since a
/// connection to one of its frontends has its own: 0, or another number. The first byte is for those that
/// were recognized where they came in, the second for this node's own, recognized where they go out. The third shows
/// whether one of this node's own has ever gone out from a frontend's address and port.
#[btf_map]
pub(crate) static DIRECT: Array<[u8; 4], 1, MMAPABLE> = Array::new();

/// Clients whose rejections are limited by themselves, by a hash. Those that share a place share the limit.
pub(crate) const REJECTED: u32 = 256;
/// Earliest time of the next rejection, in nanoseconds of the kernel's monotonic clock: of all clients,
/// then of each.
#[btf_map]
pub(crate) static REJECTIONS: Array<u64, { 1 + REJECTED as usize }> = Array::new();

/// Number of sources of packets that the stack's verdict is remembered of.
const LET_THROUGH_SOURCES: usize = 4096;
/// Sources of IPv4 packets that the stack has let through, each with the interface where they came in: the tick of the
/// kernel's until which that holds. The least recently used entry makes room for a new one.
#[btf_map]
pub(crate) static LET_THROUGH: LruHashMap<[u32; 2], u64, LET_THROUGH_SOURCES> = LruHashMap::new();

/// Arguments with which a CPU looks up a route in the kernel, one entry; in a table for the reason that
/// [`Openings`] are.
#[btf_map]
pub(crate) static LOOKUPS: PerCpuArray<bpf_fib_lookup, 1> = PerCpuArray::new();

/// The interfaces whose other ends are in namespaces of their own, by index; what an entry holds
/// means nothing. A packet that is handed to another one's other end would be lost.
#[btf_map]
pub(crate) static PEERS: HashMap<u32, u32, 4096> = HashMap::new();

/// Roles of interfaces: a key for each; what an entry holds means nothing. Of a packet that goes through the stack half translated, the other half is translated where it leaves
/// by one that has the programs. One table, as a program may have no more than 64 (`MAX_USED_MAPS`).
#[btf_map]
pub(crate) static INTERFACES: HashMap<InterfaceRole, u32, 8192> = HashMap::new();

/// The interfaces that have the XDP program, and that it may send packets out of, by index: each with
/// its link address.
#[btf_map]
pub(crate) static UPLINKS: HashMap<u32, Uplink, 64> = HashMap::new();
