//! Time of a thread in its own code.

use std::{io, mem::MaybeUninit, time::Duration};

/// The time that the calling thread has spent outside the kernel, as the kernel estimates it from
/// where its clock's ticks find the thread.
pub(super) fn user_time() -> io::Result<Duration> {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the pointer is to memory of that type, which the call fills.
    if unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has succeeded, so all of it is written.
    let libc::timeval { tv_sec, tv_usec } = unsafe { usage.assume_init() }.ru_utime;
    let seconds = Duration::from_secs(tv_sec.unsigned_abs());
    Ok(seconds + Duration::from_micros(tv_usec.unsigned_abs()))
}
