//! Threads beside the event loop.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use shunt_datapath::{Scanner, Sweeper};
use shunt_runtime::{Agent, EventQueue, is_gone};

/// Threads that look after connections and sockets.
#[derive(Debug)]
pub(super) struct Beside {
    scanner: Scanner,
    sweeper: Sweeper,
}

impl Beside {
    /// Starts to count connections at this interval, and to destroy sockets whose backend is gone;
    /// those of TCP if they are to be terminated.
    ///
    /// # Errors
    ///
    /// The kernel refuses a thread, or the access that it needs.
    pub(super) fn start(
        agent: &Agent,
        scan_interval: Duration,
        terminates_tcp: bool,
        queue: &EventQueue,
    ) -> Result<Self> {
        let datapath = agent.datapath();
        let counters = Arc::clone(datapath.counters());
        let scanner = Scanner::start(datapath.connections(), counters, scan_interval)
            .context("cannot start counting connections")?;
        let sockets = Arc::clone(datapath.stale_sockets());
        let sweeper = Sweeper::start(sockets, terminates_tcp.then(|| is_gone(queue.clone())))
            .context("cannot start to destroy sockets whose backend is gone")?;
        Ok(Self { scanner, sweeper })
    }

    /// Ends them.
    pub(super) fn stop(self) {
        let Self { scanner, sweeper } = self;
        scanner.stop();
        sweeper.stop();
    }
}
