//! Threads on one CPU.

use std::{io, sync::OnceLock};

use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};

/// The priority before all others of its kind.
const FIRST: i32 = -20;

/// The CPU on which all load runs: the last one that this process may use, since the first one has
/// more to do for others.
///
/// # Errors
///
/// When the kernel does not report it.
pub(crate) fn cpu() -> io::Result<usize> {
    static CPU: OnceLock<usize> = OnceLock::new();
    if let Some(cpu) = CPU.get() {
        return Ok(*cpu);
    }
    let allowed = sched_getaffinity(Pid::from_raw(0))?;
    let last = (0..CpuSet::count()).rfind(|&cpu| allowed.is_set(cpu).unwrap_or(false));
    Ok(*CPU.get_or_init(|| last.unwrap_or(0)))
}

/// Keeps the calling thread on that CPU, where it goes before all others.
pub(crate) fn pin() -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu()?)?;
    sched_setaffinity(Pid::from_raw(0), &set)?;
    // SAFETY: the call takes numbers alone; 0 is the calling thread.
    match unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, FIRST) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
