//! Counting, per CPU.

use shunt_common::Counter;

use crate::maps::COUNTERS;

/// Adds one packet to `counter`.
#[inline(always)]
pub fn count(counter: Counter) {
    if let Some(value) = COUNTERS.get_ptr_mut(counter as u32) {
        // SAFETY: the value is this CPU's own; an interrupted update at worst loses a count.
        unsafe { *value += 1 };
    }
}
