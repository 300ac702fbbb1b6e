//! The tables, one set a family. The sizes here are defaults that the agent overrides.

use aya_ebpf::{
    bindings::BPF_F_MMAPABLE,
    btf_maps::{Array, HashMap, LpmTrie, LruHashMap, PerCpuArray},
    macros::btf_map,
};
use shunt_common::{
    AffinityEntry, AffinityKey, Backend, ConntrackEntry, ConntrackKey, Counter, FrontendKey,
    NodeIps, Slot, SourceRange, V4,
};

const MMAPABLE: usize = BPF_F_MMAPABLE as usize;

/// Frontend to its index.
pub type Frontends<F> = HashMap<FrontendKey<F>, u32, 65_536>;
/// Frontend index to the word of its cell.
pub type Cells = Array<u64, 65_536, MMAPABLE>;
/// Slices of slots, contiguous for each frontend.
pub type Slots = Array<Slot, 1_048_576, MMAPABLE>;
/// Backends by index.
pub type Backends<F> = Array<Backend<F>, 524_288, MMAPABLE>;
/// Who may use a frontend; what an entry holds means nothing.
pub type SourceRanges<F> = LpmTrie<SourceRange<F>, u32, 65_536>;
/// Which backend a client had last. The least recently used entry makes room for a new one: its
/// client picks again, which breaks no connection.
pub type Affinity<F> = LruHashMap<AffinityKey<F>, AffinityEntry, 65_536>;
/// This node's own addresses, one entry.
pub type Node<F> = Array<NodeIps<F>, 1, MMAPABLE>;
/// Two entries a connection.
///
/// A preallocated hash, not an LRU hash: that one takes its free elements from the table in lots,
/// under a lock, and pays for it at the tail. Opening a UDP flow, medians of five runs of each kind
/// in turn, 2^19 entries (`opening_cost` of the packet tests, `docs/conntrack.md`):
///
/// | table | p50, hash | LRU | p99, hash | LRU |
/// |---|---|---|---|---|
/// | empty | 0.68 us | 0.73 us | 1.3 us | 8.0 us |
/// | half full | 1.1 us | 0.9 us | 2.6 us | 8.0 us |
/// | full | 1.0 us, refused | 1.1 us, evicts | 2.2 us | 42 us |
///
/// What an LRU hash would evict when it is full is also not ours to choose: an idle connection
/// that is open, or half of one. Here the agent keeps headroom, and who comes to a full table is
/// dropped and counted. Preallocated, so that no packet waits for memory.
pub type Conntrack<F> = HashMap<ConntrackKey<F>, ConntrackEntry<F>, 524_288>;

#[btf_map]
pub static FRONTENDS_V4: Frontends<V4> = Frontends::new();
#[btf_map]
pub static CELLS_V4: Cells = Cells::new();
#[btf_map]
pub static SLOTS_V4: Slots = Slots::new();
#[btf_map]
pub static BACKENDS_V4: Backends<V4> = Backends::new();
#[btf_map]
pub static SOURCE_RANGES_V4: SourceRanges<V4> = SourceRanges::new();
#[btf_map]
pub static AFFINITY_V4: Affinity<V4> = Affinity::new();
#[btf_map]
pub static NODE_V4: Node<V4> = Node::new();
#[btf_map]
pub static CONNTRACK_V4: Conntrack<V4> = Conntrack::new();

/// The time, in ticks of a second that the agent counts while it runs. Reading it costs a packet
/// next to nothing, where a clock helper would cost more than its translation.
#[btf_map]
pub static CLOCK: Array<u32, 1, MMAPABLE> = Array::new();

/// Packets by [`Counter`].
#[btf_map]
pub static COUNTERS: PerCpuArray<u64, { Counter::ALL.len() }> = PerCpuArray::new();
