//! Waiting for a condition, with a deadline.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

/// The pause between two probes: short enough not to be noticed, long enough not to take a core.
const PAUSE: Duration = Duration::from_millis(2);

/// Probes until `probe` gives a value, at most for `limit`.
///
/// # Errors
///
/// When the time is over; the text says `what` did not happen.
pub fn wait_until<T>(
    what: &str,
    limit: Duration,
    mut probe: impl FnMut() -> Option<T>,
) -> Result<T> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(value) = probe() {
            return Ok(value);
        }
        if Instant::now() >= deadline {
            bail!("waited {limit:?} in vain: {what}");
        }
        thread::sleep(PAUSE);
    }
}
