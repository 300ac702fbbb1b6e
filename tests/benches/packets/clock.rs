//! The time that this thread has had a processor.

use std::time::Duration;

use anyhow::{Context as _, Result};
use nix::{
    libc,
    sched::{CpuSet, sched_setaffinity},
    unistd::Pid,
};

/// The time that this thread has run: what others of the machine do meanwhile does not count.
pub(crate) fn thread_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes the structure that it is given.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

/// Keeps this thread on the processor that it is on, so that its caches stay its own.
///
/// # Errors
///
/// If the kernel refuses.
pub(crate) fn stay_on_this_processor() -> Result<()> {
    // SAFETY: the call takes nothing.
    let processor = unsafe { libc::sched_getcpu() };
    let mut set = CpuSet::new();
    set.set(usize::try_from(processor).context("cannot tell the processor")?)
        .and_then(|()| sched_setaffinity(Pid::from_raw(0), &set))
        .context("cannot stay on a processor")
}
