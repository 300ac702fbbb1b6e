//! Being served before others of the machine.

use std::io;

use anyhow::{Context as _, Result};
use nix::libc;

/// The highest priority of those that share the processors in turn (`nice(2)`).
const HIGHEST: libc::c_int = -20;

/// Has this thread, and all processes and threads that it starts from now on, served before others
/// of the machine: an event wakes four of them one after the other, each of which would wait for a
/// processor as long as others let it. All subjects have it alike.
///
/// # Errors
///
/// If the kernel refuses.
pub(super) fn raise() -> Result<()> {
    // SAFETY: the call takes three numbers.
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, HIGHEST) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error()).context("cannot raise the priority")
    }
}
