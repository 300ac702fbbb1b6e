//! History of an agent.

use std::{fmt, path::PathBuf, time::Instant};

use shunt_model::Escaped;

/// History of an agent since its start.
#[derive(Debug)]
pub(super) struct History {
    pub(super) started: Instant,
    /// Directory where it is pinned.
    pub(super) pin_dir: Option<PathBuf>,
    /// Events that took effect.
    pub(super) applied: u64,
    /// Events that were refused.
    pub(super) refused: u64,
    /// Log message of the last of these, and its time.
    pub(super) last_error: Option<(String, Instant)>,
}

impl History {
    /// That of an agent which starts now.
    pub(super) fn new(pin_dir: Option<PathBuf>) -> Self {
        Self {
            started: Instant::now(),
            pin_dir,
            applied: 0,
            refused: 0,
            last_error: None,
        }
    }

    /// An event was refused.
    pub(super) fn refuse(&mut self, error: &dyn fmt::Display) {
        self.refused += 1;
        self.last_error = Some((Escaped(error).to_string(), Instant::now()));
    }
}
