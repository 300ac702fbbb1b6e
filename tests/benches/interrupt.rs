//! Ctrl-C and its relatives end the run between two measurements, so that everything is removed.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use anyhow::{Context as _, Result, bail};
use nix::sys::{
    prctl,
    signal::{SigSet, Signal},
};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Turns SIGINT, SIGTERM and SIGHUP into what [`check`] reports. To be called before any other
/// thread exists, since a thread inherits which signals it does not take.
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
    // Whoever started the bench may be killed without passing it on.
    prctl::set_pdeathsig(Signal::SIGTERM).context("cannot follow the parent process")
}

/// Fails when the user wants to stop. Whoever works for more than a second calls it meanwhile.
pub fn check() -> Result<()> {
    if INTERRUPTED.load(Ordering::Acquire) {
        bail!("interrupted");
    }
    Ok(())
}
