//! The scanner: a thread that counts the connections, and logs when a table is crowded.

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
use tracing::warn;

use crate::{
    conntrack::{
        connections::Connections,
        crowding::{Crowding, Load, Warning},
    },
    maps::{counters::Counters, table_use::TableUse},
};

/// Time for which the thread rests after each piece of a table: it is in no hurry.
const REST: Duration = Duration::from_millis(1);

/// Counts the connections from time to time, until it is stopped.
#[derive(Debug)]
pub struct Scanner {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Scanner {
    /// Starts the thread; it counts at once, and then each `interval`.
    ///
    /// A thread of its own, because to look through a large table takes many milliseconds, in which
    /// events must not wait.
    ///
    /// # Errors
    ///
    /// If no thread can be started.
    pub fn start(
        connections: Connections,
        counters: Arc<Counters>,
        interval: Duration,
    ) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("scanner".to_owned())
            .spawn(move || {
                let mut crowding = Crowding::new(load(&connections, &counters));
                // The first count is at once: a pinned table is as full as it was left.
                let mut wait = Duration::ZERO;
                let goes_on = |wait| stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout);
                while goes_on(wait) {
                    wait = interval;
                    if let Err(error) = connections.count(|| goes_on(REST)) {
                        warn!(%error, "counting the connections failed");
                        continue;
                    }
                    if let Some(warning) =
                        crowding.note(load(&connections, &counters), Instant::now())
                    {
                        say(&connections, warning);
                    }
                }
            })?;
        Ok(Self { stop, thread })
    }

    /// Ends the thread.
    pub fn stop(self) {
        let Self { stop, thread } = self;
        drop(stop);
        // It has nothing to give, and if it has panicked, that was logged.
        drop(thread.join());
    }
}

/// Returns the state of the tables; without the counters, what is in use decides alone.
fn load(connections: &Connections, counters: &Counters) -> Load {
    let count = |counter| counters.get(counter).unwrap_or_default();
    Load {
        is_busy: connections.table_use().iter().any(is_busy),
        early_drops: count(Counter::ConntrackEarlyDrop),
        refused: count(Counter::DropConntrackFull),
        over_share: count(Counter::DropClientShare),
    }
}

fn is_busy(table: &TableUse) -> bool {
    u64::from(table.used) * 4 > u64::from(table.capacity) * 3
}

fn say(connections: &Connections, warning: Warning) {
    let [v4, v6] = connections.table_use();
    let Warning {
        early_drops,
        refused,
        over_share,
    } = warning;
    warn!(
        "the conntrack table is crowded: {} of {} entries are in use ({}), {} of {} ({}); {early_drops} \
         connections gave way before their time, {refused} found no room; a larger table would \
         keep them; {over_share} were of clients with more than their share",
        v4.used, v4.capacity, v4.name, v6.used, v6.capacity, v6.name,
    );
}
