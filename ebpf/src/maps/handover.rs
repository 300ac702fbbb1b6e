//! The tables by which an earlier agent hands its connections over to this one, whose table has another
//! size. See `docs/upgrade.md`.
//!
//! The verifier removes all of it unless [`HANDS_OVER`] shows that there are any.

use aya_ebpf::{
    Global,
    bindings::BPF_F_MMAPABLE,
    btf_maps::{Array, PerCpuArray},
    macros::btf_map,
};
use shunt_common::{
    PortRange, V4, V6,
    connections::{Key, Snapshot, Wide},
    registry::handover::{From, Phase},
};

/// Tables that hand over: a [`From`].
#[unsafe(no_mangle)]
pub(crate) static HANDS_OVER: Global<u32> = Global::new(0);

/// Number of homes of a table of another size, IPv4.
#[unsafe(no_mangle)]
pub(crate) static PREVIOUS_HOMES_V4: Global<u32> = Global::new(1);

/// Number of homes of a table of another size, IPv6.
#[unsafe(no_mangle)]
pub(crate) static PREVIOUS_HOMES_V6: Global<u32> = Global::new(1);

/// The [`Phase`].
#[btf_map]
pub(crate) static HANDOVER: Array<u32, 1, { BPF_F_MMAPABLE as usize }> = Array::new();

/// The words of [`crate::maps::constants::CONNTRACK_SEEDS`], for the next agent.
#[btf_map]
pub(crate) static SEEDS: Array<[u32; 10], 1> = Array::new();

/// All ports of [`crate::maps::constants::REPLY_PORTS`], for the next agent.
#[btf_map]
pub(crate) static GIVEN_PORTS: Array<PortRange, 1> = Array::new();

/// Data that a CPU carries from one table to the other: on the stack it would take all of it.
#[repr(C)]
pub(crate) struct Carrier<F: Wide> {
    pub sought: Key<F>,
    pub snapshot: Snapshot<F>,
}

/// One entry a CPU.
pub(crate) type Carriers<F> = PerCpuArray<Carrier<F>, 1>;

#[btf_map]
pub(crate) static CARRIERS_V4: Carriers<V4> = PerCpuArray::new();
#[btf_map]
pub(crate) static CARRIERS_V6: Carriers<V6> = PerCpuArray::new();

/// A family's tables.
pub(crate) trait HandsOver: Wide {
    fn carriers() -> &'static Carriers<Self>;
}

impl HandsOver for V4 {
    #[inline(always)]
    fn carriers() -> &'static Carriers<Self> {
        &CARRIERS_V4
    }
}

impl HandsOver for V6 {
    #[inline(always)]
    fn carriers() -> &'static Carriers<Self> {
        &CARRIERS_V6
    }
}

/// Returns whether there is any handover.
#[inline(always)]
pub(crate) fn is_any() -> bool {
    HANDS_OVER.load() != From::Nothing as u32
}

/// Returns whether one is going on: then packets have to go the general path.
#[inline(always)]
pub(crate) fn is_going_on() -> bool {
    phase() != Phase::None as u32
}

/// The phase, if there is any handover: a [`Phase`].
#[inline(always)]
pub(crate) fn phase() -> u32 {
    if !is_any() {
        return Phase::None as u32;
    }
    HANDOVER.get(0).copied().unwrap_or_default()
}
