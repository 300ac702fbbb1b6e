//! The tables by which an earlier version of the layouts hands over to this one.

use aya_ebpf::{
    bindings::BPF_F_MMAPABLE,
    btf_maps::{Array, HashMap, PerCpuArray},
    macros::btf_map,
};
use shunt_common::{ConntrackEntry, ConntrackKey, Family, V4, V6, previous};

/// The connections in the layout of the version before; the agent puts its pinned table here.
pub(crate) type Previous<F> = HashMap<ConntrackKey<F>, previous::ConntrackEntry<F>, 1>;
/// Where a CPU makes an entry of one layout what it is in the other.
pub(crate) type Converted<F> = PerCpuArray<Conversion<F>, 1>;

/// An entry, as it is in either layout.
#[repr(C)]
pub(crate) struct Conversion<F: Family> {
    pub(crate) ours: ConntrackEntry<F>,
    pub(crate) before: previous::ConntrackEntry<F>,
}

/// A family's tables.
pub(crate) trait Handover: Family {
    fn previous() -> &'static Previous<Self>;
    fn converted() -> &'static Converted<Self>;
}

#[btf_map]
pub(crate) static PREVIOUS_CONNTRACK_V4: Previous<V4> = HashMap::new();
#[btf_map]
pub(crate) static PREVIOUS_CONNTRACK_V6: Previous<V6> = HashMap::new();
#[btf_map]
pub(crate) static CONVERTED_V4: Converted<V4> = PerCpuArray::new();
#[btf_map]
pub(crate) static CONVERTED_V6: Converted<V6> = PerCpuArray::new();

/// The phase, see [`shunt_common::registry::handover::Phase`].
#[btf_map]
pub(crate) static HANDOVER: Array<u32, 1, { BPF_F_MMAPABLE as usize }> = Array::new();

impl Handover for V4 {
    #[inline(always)]
    fn previous() -> &'static Previous<Self> {
        &PREVIOUS_CONNTRACK_V4
    }

    #[inline(always)]
    fn converted() -> &'static Converted<Self> {
        &CONVERTED_V4
    }
}

impl Handover for V6 {
    #[inline(always)]
    fn previous() -> &'static Previous<Self> {
        &PREVIOUS_CONNTRACK_V6
    }

    #[inline(always)]
    fn converted() -> &'static Converted<Self> {
        &CONVERTED_V6
    }
}
