//! Traffic that goes on while something else is done.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

use crate::{
    client::{Answer, Failure, Target},
    namespace::Namespace,
    wait::wait_until,
};

/// The pause between two connections: a long run neither takes a core nor uses up the client's ports. The kernel has
/// 28,000 of them, and keeps each for a minute after its connection.
const PAUSE: Duration = Duration::from_millis(4);

/// One connection of many.
#[derive(Debug)]
pub struct Sample {
    /// Before it was opened.
    pub started: Instant,
    /// After it was answered, or given up.
    pub ended: Instant,
    /// Result of the connection.
    pub outcome: Result<Answer, Failure>,
}

/// A thread that opens connection after connection, until it has to stop.
pub struct Continuous {
    stop: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
    thread: Option<JoinHandle<Vec<Sample>>>,
}

impl Continuous {
    /// Starts to ask `target` from the namespace, with requests of `length` bytes.
    pub fn start(namespace: &Namespace, target: Target, length: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let count = Arc::new(AtomicU64::new(0));
        let thread = namespace.enter(|| {
            let (stop, count) = (Arc::clone(&stop), Arc::clone(&count));
            thread::spawn(move || {
                let mut samples = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let started = Instant::now();
                    let outcome = target.ask(length);
                    samples.push(Sample {
                        started,
                        ended: Instant::now(),
                        outcome,
                    });
                    count.fetch_add(1, Ordering::Relaxed);
                    thread::sleep(PAUSE);
                }
                samples
            })
        });
        Self {
            stop,
            count,
            thread: Some(thread),
        }
    }

    /// Returns the number of connections that have ended so far.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Waits until that many more have ended.
    ///
    /// # Errors
    ///
    /// When they have not within `limit`.
    pub fn wait_for(&self, more: u64, limit: Duration) -> Result<()> {
        let goal = self.count() + more;
        wait_until(&format!("{more} more connections"), limit, || {
            (self.count() >= goal).then_some(())
        })
    }

    /// Stops and returns the outcome of every connection, in order.
    ///
    /// # Errors
    ///
    /// When the thread panicked.
    pub fn stop(mut self) -> Result<Vec<Sample>> {
        match self.join() {
            Some(Ok(samples)) => Ok(samples),
            _ => bail!("the traffic thread panicked"),
        }
    }

    fn join(&mut self) -> Option<thread::Result<Vec<Sample>>> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join)
    }
}

impl Drop for Continuous {
    fn drop(&mut self) {
        drop(self.join());
    }
}

impl fmt::Debug for Continuous {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Continuous")
            .field("count", &self.count())
            .finish_non_exhaustive()
    }
}
