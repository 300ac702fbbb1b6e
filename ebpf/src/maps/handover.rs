//! The tables of connections that hand over to ours. See `docs/upgrade.md`.

use aya_ebpf::{
    Global,
    bindings::BPF_F_MMAPABLE,
    btf_maps::{Array, HashMap},
    macros::btf_map,
};
use shunt_common::{ConntrackKey, V4, V6, connections::Wide, version_3};

const MMAPABLE: usize = BPF_F_MMAPABLE as usize;

/// A table of version 3 of the layouts; the agent puts the pinned one here.
type Previous<F> = HashMap<ConntrackKey<F>, version_3::ConntrackEntry<F>, 1>;

#[btf_map]
pub(crate) static PREVIOUS_CONNTRACK_V4: Previous<V4> = HashMap::new();
#[btf_map]
pub(crate) static PREVIOUS_CONNTRACK_V6: Previous<V6> = HashMap::new();

/// A table of another size; the agent puts the pinned one here.
#[btf_map]
pub(crate) static RESIZED_CONNTRACK_V4: Array<[u64; V4::SLOT_WORDS], 1, MMAPABLE> = Array::new();
#[btf_map]
pub(crate) static RESIZED_CONNTRACK_V6: Array<[u64; V6::SLOT_WORDS], 1, MMAPABLE> = Array::new();

/// The phase of a handover.
#[btf_map]
pub(crate) static HANDOVER: Array<u32, 1, MMAPABLE> = Array::new();

/// The words of [`crate::maps::constants::CONNTRACK_SEEDS`], for the next agent.
#[btf_map]
pub(crate) static SEEDS: Array<[u32; 10], 1> = Array::new();

/// What hands over.
#[unsafe(no_mangle)]
pub(crate) static HANDS_OVER: Global<u32> = Global::new(0);
/// How many homes the table has that does.
#[unsafe(no_mangle)]
pub(crate) static PREVIOUS_HOMES_V4: Global<u32> = Global::new(1);
/// How many homes the table has that does.
#[unsafe(no_mangle)]
pub(crate) static PREVIOUS_HOMES_V6: Global<u32> = Global::new(1);
