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

use shunt_common::Counter;
use tracing::{debug, warn};

use crate::{
    conntrack::{
        conntrack_table::ConntrackTable, lifetime::Timeouts, sweep_schedule::SweepSchedule,
        sweeping::Conntrack, swept::Swept,
    },
    maps::{counters::Counters, family::FromIp},
};

/// How often the clock advances: its unit.
const TICK: Duration = Duration::from_secs(1);

/// How often at most the log says that the table is crowded.
const WARNING_INTERVAL: Duration = Duration::from_mins(1);

/// Keeps the clock of the conntrack tables, and sweeps the tables, until it is stopped.
#[derive(Debug)]
pub struct Collector {
    stop: Sender<()>,
    thread: JoinHandle<Conntrack>,
}

impl Collector {
    /// Starts the thread; it sweeps every `interval` seconds, and every second while a table is
    /// busy, which `counters` tell between two sweeps.
    ///
    /// A thread of its own, because a sweep of a large table takes many milliseconds, in which
    /// events must not wait.
    ///
    /// # Errors
    ///
    /// If no thread can be started.
    pub fn start(
        mut conntrack: Conntrack,
        counters: Arc<Counters>,
        timeouts: Timeouts,
        interval: u32,
    ) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("collector".to_owned())
            .spawn(move || {
                let mut time = Instant::now();
                let mut v4 = Sweeper::new(interval, &conntrack.v4);
                let mut v6 = Sweeper::new(interval, &conntrack.v6);
                while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                    let seconds = time.elapsed().as_secs() as u32;
                    time += Duration::from_secs(seconds.into());
                    conntrack.advance(seconds);
                    // Of both families: what one has more than is its own is swept a bit early.
                    // Without the counter, the interval alone decides.
                    let tick = Tick {
                        seconds,
                        now: conntrack.now(),
                        opened: counters.get(Counter::Connection).unwrap_or_default(),
                    };
                    v4.tick(&tick, &mut conntrack.v4, &timeouts);
                    v6.tick(&tick, &mut conntrack.v6, &timeouts);
                }
                conntrack
            })?;
        Ok(Self { stop, thread })
    }

    /// Ends the thread and gives the tables back; `None` if the thread had ended by a panic.
    pub fn stop(self) -> Option<Conntrack> {
        let Self { stop, thread } = self;
        drop(stop);
        thread.join().ok()
    }
}

/// Some seconds have passed.
struct Tick {
    /// How many.
    seconds: u32,
    /// What the clock shows.
    now: u32,
    /// How many connections were opened so far, of whatever family.
    opened: u64,
}

/// Keeps one table.
struct Sweeper {
    schedule: SweepSchedule,
    pressure: Pressure,
}

impl Sweeper {
    fn new<F: FromIp>(interval: u32, table: &ConntrackTable<F>) -> Self {
        Self {
            schedule: SweepSchedule::new(interval, table.busy()),
            pressure: Pressure::default(),
        }
    }

    fn tick<F: FromIp>(&mut self, tick: &Tick, table: &mut ConntrackTable<F>, timeouts: &Timeouts) {
        let &Tick {
            seconds,
            now,
            opened,
        } = tick;
        if !self.schedule.is_due(seconds, opened) {
            return;
        }
        match table.sweep(now, timeouts) {
            Ok(swept) => {
                debug!(family = F::NAME, ?swept, "swept the conntrack table");
                self.schedule.swept(swept.kept, opened);
                self.pressure.note(&swept, table);
            }
            Err(error) => {
                warn!(family = F::NAME, %error, "sweeping the conntrack table failed");
                self.schedule.swept(0, opened);
            }
        }
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
    fn note<F: FromIp>(&mut self, swept: &Swept, table: &ConntrackTable<F>) {
        self.removed += swept.early_drops;
        let crowded = swept.early_drops > 0 || swept.kept > table.busy();
        let is_time = self
            .warned
            .is_none_or(|warned| warned.elapsed() >= WARNING_INTERVAL);
        if !crowded || !is_time {
            return;
        }
        warn!(
            "the conntrack table is crowded ({}): {} of {} entries are in use, and {} \
             connections were dropped early; a larger table would keep them",
            F::NAME,
            swept.kept,
            table.capacity(),
            self.removed
        );
        self.warned = Some(Instant::now());
        self.removed = 0;
    }
}
