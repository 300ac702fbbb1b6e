//! The time, by the kernel's own ticks: reading them costs a packet next to nothing, where a clock
//! helper is a call, which costs as much as a lookup.

use aya_ebpf::helpers::bpf_jiffies64;

use crate::maps::constants::CLOCK_HZ;

/// The time by which connections are dated, in ticks: 64 of the kernel's own, some 0.06 to 0.6 s.
#[inline(always)]
pub(crate) fn now() -> u32 {
    (kernel_ticks() >> 6) as u32
}

/// The time in seconds, for what is looked at rarely.
#[inline(always)]
pub(crate) fn seconds() -> u32 {
    (kernel_ticks() / hz()) as u32
}

/// The kernel's ticks, of 1 to 10 ms.
#[inline(always)]
pub(crate) fn kernel_ticks() -> u64 {
    // SAFETY: the helper has no preconditions.
    unsafe { bpf_jiffies64() }
}

/// For how many of the kernel's ticks a way is taken to be the same: 100 ms.
#[inline(always)]
pub(crate) fn way_lifetime() -> u64 {
    hz() / 10
}

/// For how many of the kernel's ticks a verdict of the stack on a packet's source holds: 1 s.
#[inline(always)]
pub(crate) fn verdict_lifetime() -> u64 {
    hz()
}

/// For how many of the kernel's ticks packets may go to a next hop without the kernel's neighbour code: 10 s.
#[inline(always)]
fn unconfirmed_lifetime() -> u64 {
    hz() * 10
}

/// Returns whether the next packet has to go through the kernel's neighbour code, which probes a stale neighbour. `due`
/// is the tick from which on it has to; 0: that is not known yet. Sets the next one.
#[inline(always)]
pub(crate) fn is_confirmation_due(due: &mut u64, now: u64) -> bool {
    if *due > now {
        return false;
    }
    let is_first = *due == 0;
    *due = now + unconfirmed_lifetime();
    !is_first
}

/// Returns the number of ticks a second: 100 to 1000.
#[inline(always)]
fn hz() -> u64 {
    // No division by 0 is left in the programs.
    u64::from(CLOCK_HZ.load().max(1))
}
