//! The collector: a thread that keeps the clock and removes connections that are over.

use std::{
    io,
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use shunt_common::Family;
use tracing::{debug, warn};

use super::{conntrack::Conntrack, lifetime::Timeouts};

/// How often the clock advances: its unit.
const TICK: Duration = Duration::from_secs(1);

/// Keeps the clock of a conntrack table, and sweeps the table, until it is stopped.
pub struct Collector<F: Family> {
    stop: Sender<()>,
    thread: JoinHandle<Conntrack<F>>,
}

impl<F: Family> Collector<F> {
    /// Starts the thread; it sweeps every `interval` seconds.
    ///
    /// A thread of its own, because a sweep of a large table takes many milliseconds, in which
    /// events must not wait.
    ///
    /// # Errors
    ///
    /// If no thread can be started.
    pub fn start(
        mut conntrack: Conntrack<F>,
        timeouts: Timeouts,
        interval: u32,
    ) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("collector".to_owned())
            .spawn(move || {
                let mut time = Instant::now();
                let mut since_sweep = 0;
                while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                    let seconds = time.elapsed().as_secs() as u32;
                    time += Duration::from_secs(seconds.into());
                    conntrack.advance(seconds);
                    since_sweep += seconds;
                    if since_sweep < interval {
                        continue;
                    }
                    since_sweep = 0;
                    match conntrack.sweep(&timeouts) {
                        Ok(swept) => debug!(?swept, "swept the conntrack table"),
                        Err(error) => warn!(%error, "sweeping the conntrack table failed"),
                    }
                }
                conntrack
            })?;
        Ok(Self { stop, thread })
    }

    /// Ends the thread and gives the table back; `None` if the thread had ended by a panic.
    pub fn stop(self) -> Option<Conntrack<F>> {
        let Self { stop, thread } = self;
        drop(stop);
        thread.join().ok()
    }
}
