//! Counting where several processors do.

/// Adds 1, also if other processors do at the same time.
///
/// # Safety
///
/// The word is one of a table.
#[cfg(target_arch = "bpf")]
#[inline(always)]
pub(crate) unsafe fn add_one(word: *mut u64) {
    // SAFETY: as the caller guarantees; the compiler knows that memory changes.
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
    // SAFETY: as the caller guarantees; nothing else writes there.
    unsafe { *word += 1 };
}
