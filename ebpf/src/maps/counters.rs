//! Counting, per CPU.

use aya_ebpf::{btf_maps::PerCpuArray, macros::btf_map};
use aya_log_ebpf::debug;
use shunt_common::Counter;

use crate::ctx::{access::Access, verdict::Verdict};

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
    debug!(context, "packet dropped, reason {}", reason as u32);
    Verdict::DROP
}

/// Adds 1, whoever else does at the same time.
///
/// # Safety
///
/// The word is one of a table.
#[cfg(target_arch = "bpf")]
#[inline(always)]
pub(crate) unsafe fn add_one(word: *mut u64) {
    // SAFETY: as the caller says; the compiler is told that memory changes.
    unsafe {
        core::arch::asm!(
            "lock *(u64 *)({word} + 0) += {one}",
            word = in(reg) word,
            one = in(reg) 1_u64,
        );
    }
}

#[cfg(not(target_arch = "bpf"))]
pub(crate) unsafe fn add_one(word: *mut u64) {
    // SAFETY: as the caller says; nobody else writes there.
    unsafe { *word += 1 };
}
