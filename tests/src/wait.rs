//! Waiting for a condition, with a deadline.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

use crate::patience::patience;

/// The pause between two probes: short enough not to be noticed, long enough not to take a core.
const PAUSE: Duration = Duration::from_millis(2);

/// Probes until `probe` returns a value, at most for `limit`, or as much longer as the machine is slower.
///
/// # Errors
///
/// When the time is over; the text names `what` did not happen.
pub fn wait_until<T>(
    what: &str,
    limit: Duration,
    mut probe: impl FnMut() -> Option<T>,
) -> Result<T> {
    let limit = patience(limit);
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
