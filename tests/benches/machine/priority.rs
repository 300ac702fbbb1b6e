//! Being served before others of the machine.

use std::io;

use anyhow::{Context as _, Result};
use nix::libc;

/// The highest priority of those that share the processors in turn (`nice(2)`).
const HIGHEST: libc::c_int = -20;

/// The lowest priority of those that come before all that share the processors (`sched(7)`).
const REAL_TIME: libc::c_int = 1;

/// Has this thread, and all processes and threads that it starts from now on, served before others
/// of the machine: an event wakes four of them one after the other, each of which would wait for a
/// processor as long as others let it. All subjects have it alike.
///
/// # Errors
///
/// If the kernel refuses.
pub(crate) fn raise() -> Result<()> {
    // SAFETY: the call takes three numbers.
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, HIGHEST) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error()).context("cannot raise the priority")
    }
}

/// As [`raise`], but at once: a thread that wakes up does not wait until another of the machine has
/// had its share of the processor, which takes milliseconds. One that looks on for something all the
/// time has to yield.
///
/// # Errors
///
/// If the kernel refuses.
pub(crate) fn real_time() -> Result<()> {
    let parameters = libc::sched_param {
        sched_priority: REAL_TIME,
    };
    // SAFETY: the kernel reads the parameters, which outlive the call.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_RR, &raw const parameters) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error()).context("cannot become a real-time thread")
    }
}
