//! The kernel's monotonic clock, as programs read it.

use std::{
    io,
    time::{Duration, SystemTime},
};

/// Returns its time (`CLOCK_MONOTONIC`, the clock of `bpf_ktime_get_ns`).
pub(crate) fn monotonic() -> io::Result<Duration> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes a timespec.
    if unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Duration::new(
        time.tv_sec.cast_unsigned(),
        u32::try_from(time.tv_nsec).unwrap_or_default(),
    ))
}

/// Returns the time at which that clock began, by the wall clock.
pub(crate) fn beginning() -> io::Result<SystemTime> {
    let since = monotonic()?;
    Ok(SystemTime::now()
        .checked_sub(since)
        .unwrap_or(SystemTime::UNIX_EPOCH))
}
