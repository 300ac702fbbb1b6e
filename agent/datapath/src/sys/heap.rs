//! Memory that was needed for a while.

/// Gives memory that is free within this process back to the system. A Resync is some four times
/// as large on its way to the tables as what is kept of it, and the allocator would keep all that.
///
/// Takes milliseconds for each hundred megabytes, so it is for when nothing else is to be done.
pub fn release() {
    // SAFETY: the call takes its own locks and touches nothing that is in use.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}
