//! The agent's standard error, line by line.

use std::{
    io::{self, BufRead as _, BufReader, Read},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use crate::patience::patience;

/// The lines so far, and whether there can be more.
#[derive(Default)]
struct Lines {
    lines: Vec<String>,
    ended: bool,
}

#[derive(Default)]
struct Shared {
    lines: Mutex<Lines>,
    grown: Condvar,
}

/// A log that a thread of its own keeps reading, so that the agent never waits for us.
pub(crate) struct Log(Arc<Shared>);

impl Log {
    /// Reads until the agent closes its side.
    pub(crate) fn follow(stderr: impl Read + Send + 'static) -> Self {
        let shared = Arc::new(Shared::default());
        let log = Self(Arc::clone(&shared));
        thread::spawn(move || {
            for line in BufReader::new(stderr).split(b'\n') {
                let Ok(line) = line else { break };
                lock(&shared)
                    .lines
                    .push(String::from_utf8_lossy(&line).into_owned());
                shared.grown.notify_all();
            }
            lock(&shared).ended = true;
            shared.grown.notify_all();
        });
        log
    }

    /// Returns the number of lines.
    pub(crate) fn len(&self) -> usize {
        lock(&self.0).lines.len()
    }

    /// All lines.
    pub(crate) fn text(&self) -> String {
        lock(&self.0).lines.join("\n")
    }

    /// Waits until all is read that an agent has written that has exited. A child of its own may keep the pipe open.
    pub(crate) fn wait_for_end(&self, limit: Duration) {
        let lines = lock(&self.0);
        let is_open = |lines: &mut Lines| !lines.ended;
        drop(
            self.0
                .grown
                .wait_timeout_while(lines, patience(limit), is_open),
        );
    }

    /// Waits until `find` finds something in a line, beginning with line number `from`.
    pub(crate) fn wait_for<T>(
        &self,
        from: usize,
        limit: Duration,
        find: impl Fn(&str) -> Option<T>,
    ) -> io::Result<T> {
        let deadline = Instant::now() + patience(limit);
        let mut next = from;
        let mut lines = lock(&self.0);
        loop {
            let fresh = lines.lines.get(next..).unwrap_or_default();
            if let Some(found) = fresh.iter().find_map(|line| find(line)) {
                return Ok(found);
            }
            next = lines.lines.len();
            if lines.ended {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the agent has exited",
                ));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            lines = self
                .0
                .grown
                .wait_timeout(lines, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }
}

fn lock(shared: &Shared) -> MutexGuard<'_, Lines> {
    shared.lines.lock().unwrap_or_else(PoisonError::into_inner)
}
