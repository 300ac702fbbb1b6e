//! How many packets are rejected: an answer to each would let whoever can forge sources aim ours
//! at others.

use aya_ebpf::helpers::bpf_ktime_get_ns;

use crate::{config, maps::REJECTIONS};

/// Whether another rejection may be sent now.
///
/// The generic cell rate algorithm (ITU-T I.371): each one is due an interval after the last, and
/// may come early by one interval less than the burst has. Two CPUs at one instant may both be
/// allowed what one is: that is harmless, and a lock is not.
#[inline(always)]
pub fn allows_rejection() -> bool {
    let interval = config::REJECT_INTERVAL_NS.load();
    if interval == 0 {
        return true;
    }
    let Some(due) = REJECTIONS.get_ptr_mut(0) else {
        return false;
    };
    // SAFETY: the helper has no preconditions.
    let now = unsafe { bpf_ktime_get_ns() };
    // SAFETY: the lookup gave a word of the table; volatile, as other CPUs write it too.
    let next = unsafe { due.read_volatile() }.max(now) + interval;
    if next - now > interval.wrapping_mul(config::REJECT_BURST.load()) {
        return false;
    }
    // SAFETY: as above.
    unsafe { due.write_volatile(next) };
    true
}
