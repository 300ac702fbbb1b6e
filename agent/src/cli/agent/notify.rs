//! Notifications to systemd about the agent, where it is started by it (`Type=notify`); none elsewhere.

use std::{
    env, io,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use sd_notify::{NotifyState, notify, watchdog_enabled};
use tokio::time::sleep;
use tracing::warn;

/// Time that each request has systemd wait, interval of the requests, and time after which there are no more.
const EXTENSION: Duration = Duration::from_mins(1);
const PAUSE: Duration = Duration::from_secs(10);
const LONGEST_START: Duration = Duration::from_mins(15);

/// A start, until this is dropped. It may take longer than `TimeoutStartSec=`: on a busy host the kernel verifies
/// programs for two minutes, and a Node may take five to have its pods' ranges. A thread of its own has systemd wait.
#[derive(Debug)]
pub(super) struct Starting {
    _ends: Option<mpsc::Sender<()>>,
}

impl Starting {
    /// Begins to request time, if systemd waits.
    pub(super) fn begin() -> Self {
        if env::var_os("NOTIFY_SOCKET").is_none() {
            return Self { _ends: None };
        }
        let (ends, ended) = mpsc::channel();
        thread::spawn(move || ask_for_time(&ended));
        Self { _ends: Some(ends) }
    }
}

fn ask_for_time(ended: &mpsc::Receiver<()>) {
    let microseconds = u32::try_from(EXTENSION.as_micros()).unwrap_or(u32::MAX);
    let begin = Instant::now();
    while begin.elapsed() < LONGEST_START {
        complain(notify(&[NotifyState::ExtendTimeoutUsec(microseconds)]));
        match ended.recv_timeout(PAUSE) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Notifies systemd that the agent translates, and from now on that it is alive, as often as `WatchdogSec=` requires.
/// The notifications come from the thread of the event loop: when that is stuck, they stop, and systemd starts the
/// agent anew.
pub(super) fn ready() {
    complain(notify(&[NotifyState::Ready]));
    let Some(limit) = watchdog_enabled() else {
        return;
    };
    tokio::spawn(async move {
        loop {
            complain(notify(&[NotifyState::Watchdog]));
            sleep((limit / 3).max(Duration::from_millis(1))).await;
        }
    });
}

/// Notifies systemd that the agent ends.
pub(super) fn stopping() {
    complain(notify(&[NotifyState::Stopping]));
}

fn complain(said: io::Result<()>) {
    if let Err(error) = said {
        warn!(%error, "systemd cannot be told how the agent is");
    }
}
