//! Ctrl-C and its relatives end a run between two steps, so that everything is cleaned up.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use nix::sys::{
    prctl,
    signal::{SigSet, Signal},
};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Turns SIGINT, SIGTERM and SIGHUP into what [`check`] reports. To be called before any other
/// thread exists, since a thread inherits which signals it does not take.
///
/// # Errors
///
/// When the kernel refuses.
pub fn listen() -> Result<()> {
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        signals.add(signal);
    }
    signals.thread_block().context("cannot block signals")?;
    thread::spawn(move || {
        while signals.wait().is_ok() {
            INTERRUPTED.store(true, Ordering::Release);
        }
    });
    // The process that started the run may be killed without passing it on.
    prctl::set_pdeathsig(Signal::SIGTERM).context("cannot follow the parent process")
}

/// Returns whether the user wants to stop.
pub fn is_requested() -> bool {
    INTERRUPTED.load(Ordering::Acquire)
}

/// Fails when the user wants to stop. Work of more than a second calls it meanwhile.
///
/// # Errors
///
/// Then.
pub fn check() -> Result<()> {
    if is_requested() {
        bail!("interrupted");
    }
    Ok(())
}

/// Lets traffic go on for a while, unless the user wants to stop.
///
/// # Errors
///
/// When the user does.
pub fn pass(time: Duration) -> Result<()> {
    let end = Instant::now() + time;
    while Instant::now() < end {
        check()?;
        thread::sleep(Duration::from_millis(20));
    }
    check()
}
