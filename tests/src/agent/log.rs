//! The agent's standard error, line by line.

use std::{
    fs::File,
    io::{self, ErrorKind, Read as _},
    os::fd::{AsFd as _, OwnedFd},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
};

use crate::patience::patience;

/// The number of bytes that are read at once: the room of a pipe.
const PIECE: usize = 1 << 16;

/// The lines so far, and where more come from.
struct Lines {
    lines: Vec<String>,
    /// The beginning of the next line.
    rest: Vec<u8>,
    /// The pipe, unless it has ended.
    pipe: Option<File>,
}

struct Shared {
    lines: Mutex<Lines>,
    grown: Condvar,
}

/// A log that a thread of its own keeps reading, so that the agent never waits for us. Each look at it has all that the
/// agent has written until then, whether that thread has had its turn or not.
pub(crate) struct Log(Arc<Shared>);

impl Log {
    /// Reads until the agent closes its side.
    ///
    /// # Errors
    ///
    /// If the kernel has no room for another descriptor.
    pub(crate) fn follow(pipe: impl Into<OwnedFd>) -> io::Result<Self> {
        let pipe = pipe.into();
        fcntl_setfl(&pipe, fcntl_getfl(&pipe)? | OFlags::NONBLOCK)?;
        let waited_for = pipe.try_clone()?;
        let shared = Arc::new(Shared {
            lines: Mutex::new(Lines {
                lines: Vec::new(),
                rest: Vec::new(),
                pipe: Some(pipe.into()),
            }),
            grown: Condvar::new(),
        });
        let log = Self(Arc::clone(&shared));
        thread::spawn(move || {
            while lock(&shared).pipe.is_some() {
                let mut pipe = [PollFd::from_borrowed_fd(waited_for.as_fd(), PollFlags::IN)];
                // A signal may end the wait.
                _ = poll(&mut pipe, None);
                lock(&shared).read();
                shared.grown.notify_all();
            }
        });
        Ok(log)
    }

    /// Returns the number of lines.
    pub(crate) fn len(&self) -> usize {
        self.up_to_date().lines.len()
    }

    /// All lines.
    pub(crate) fn text(&self) -> String {
        self.up_to_date().lines.join("\n")
    }

    fn up_to_date(&self) -> MutexGuard<'_, Lines> {
        let mut lines = lock(&self.0);
        lines.read();
        self.0.grown.notify_all();
        lines
    }

    /// Waits until all is read that an agent has written that has exited. A child of its own may keep the pipe open.
    pub(crate) fn wait_for_end(&self, limit: Duration) {
        let lines = lock(&self.0);
        let is_open = |lines: &mut Lines| lines.pipe.is_some();
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
            if lines.pipe.is_none() {
                return Err(io::Error::new(
                    ErrorKind::UnexpectedEof,
                    "the agent has exited",
                ));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
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

impl Lines {
    /// Reads all that is there.
    fn read(&mut self) {
        let mut piece = vec![0; PIECE];
        while let Some(pipe) = &mut self.pipe {
            match pipe.read(&mut piece) {
                Ok(0) => {
                    self.pipe = None;
                    if !self.rest.is_empty() {
                        self.rest.push(b'\n');
                    }
                }
                Ok(length) => self.rest.extend(&piece[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.pipe = None,
            }
            let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else {
                continue;
            };
            let next = self.rest.split_off(end + 1);
            let lines = self.rest[..end].split(|byte| *byte == b'\n');
            let lines = lines.map(|line| String::from_utf8_lossy(line).into_owned());
            self.lines.extend(lines);
            self.rest = next;
        }
    }
}

fn lock(shared: &Shared) -> MutexGuard<'_, Lines> {
    shared.lines.lock().unwrap_or_else(PoisonError::into_inner)
}
