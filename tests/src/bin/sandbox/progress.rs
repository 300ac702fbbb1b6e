//! A display of the events at the moment, for a person who watches.

use std::{
    fmt,
    io::{self, Write as _},
    time::Instant,
};

use shunt_tests::duration_text;

/// Prints short lines with the time since the start.
#[derive(Debug)]
pub(crate) struct Progress(Instant);

impl Progress {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// One line: the part that acts, and what it does.
    pub(crate) fn say(&self, part: &str, what: impl fmt::Display) {
        let seconds = self.0.elapsed().as_secs_f64();
        let mut out = io::stdout().lock();
        // The reader is gone: the exit status still counts.
        drop(writeln!(out, "[{seconds:5.1} s] {part:<8} {what}"));
    }

    pub(crate) fn took(&self) -> String {
        duration_text(self.0.elapsed())
    }
}
