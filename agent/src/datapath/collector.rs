//! The collector: a thread that keeps the clock and removes connections that are over.

use std::{
    io,
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use shunt_common::{Counter, Family};
use tracing::{debug, warn};

use super::{
    conntrack::{Conntrack, Swept},
    counters::Counters,
    lifetime::Timeouts,
    sweep_schedule::SweepSchedule,
};

/// How often the clock advances: its unit.
const TICK: Duration = Duration::from_secs(1);

/// How often at most the log says that the table is crowded.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// Keeps the clock of a conntrack table, and sweeps the table, until it is stopped.
pub struct Collector<F: Family> {
    stop: Sender<()>,
    thread: JoinHandle<Conntrack<F>>,
}

impl<F: Family> Collector<F> {
    /// Starts the thread; it sweeps every `interval` seconds, and every second while the table is
    /// busy, which `counters` tell between two sweeps.
    ///
    /// A thread of its own, because a sweep of a large table takes many milliseconds, in which
    /// events must not wait.
    ///
    /// # Errors
    ///
    /// If no thread can be started.
    pub fn start(
        mut conntrack: Conntrack<F>,
        counters: Arc<Counters>,
        timeouts: Timeouts,
        interval: u32,
    ) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("collector".to_owned())
            .spawn(move || {
                let mut time = Instant::now();
                let mut schedule = SweepSchedule::new(interval, conntrack.busy());
                let mut pressure = Pressure::default();
                while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                    let seconds = time.elapsed().as_secs() as u32;
                    time += Duration::from_secs(seconds.into());
                    conntrack.advance(seconds);
                    // Without the counter, the interval alone decides.
                    let opened = counters.get(Counter::Connection).unwrap_or_default();
                    if !schedule.is_due(seconds, opened) {
                        continue;
                    }
                    match conntrack.sweep(&timeouts) {
                        Ok(swept) => {
                            debug!(?swept, "swept the conntrack table");
                            schedule.swept(swept.kept, opened);
                            pressure.note(&swept, conntrack.capacity(), conntrack.busy());
                        }
                        Err(error) => {
                            warn!(%error, "sweeping the conntrack table failed");
                            schedule.swept(0, opened);
                        }
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

/// What the log says while the table is crowded.
#[derive(Debug, Default)]
struct Pressure {
    warned: Option<Instant>,
    /// Connections that were removed since then.
    removed: usize,
}

impl Pressure {
    fn note(&mut self, swept: &Swept, capacity: u32, busy: usize) {
        self.removed += swept.removed_for_room;
        let crowded = swept.removed_for_room > 0 || swept.kept > busy;
        let is_time = self
            .warned
            .is_none_or(|warned| warned.elapsed() >= WARNING_INTERVAL);
        if !crowded || !is_time {
            return;
        }
        warn!(
            "the conntrack table is crowded: {} of {capacity} entries are in use, and {} \
             connections were removed before their time; --max-conntrack makes it larger",
            swept.kept, self.removed
        );
        self.warned = Some(Instant::now());
        self.removed = 0;
    }
}
