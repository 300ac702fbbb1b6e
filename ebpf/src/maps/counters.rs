//! Counting, per CPU.

use aya_ebpf::{btf_maps::PerCpuArray, macros::btf_map};
use aya_log_ebpf::debug;
use shunt_common::{Counter, FlowKind};

use crate::{
    ctx::{access::Access, verdict::Verdict},
    maps::flows::tell_packet,
};

/// Packets by [`Counter`].
#[btf_map]
pub(crate) static COUNTERS: PerCpuArray<u64, { Counter::ALL.len() }> = PerCpuArray::new();

/// Adds one packet to `counter`.
#[inline(always)]
pub(crate) fn count(counter: Counter) {
    if let Some(value) = COUNTERS.get_ptr_mut(counter as u32) {
        // SAFETY: the value is this CPU's own; an interrupted update at worst loses a count.
        unsafe { *value += 1 };
    }
}

/// Drops the packet, counted by its reason.
#[inline(always)]
pub(crate) fn drop_packet(context: &impl Access, reason: Counter) -> Verdict {
    count(reason);
    tell_packet(context, FlowKind::DROPPED, 0, reason);
    debug!(context, "packet dropped, reason {}", reason as u32);
    Verdict::DROP
}
