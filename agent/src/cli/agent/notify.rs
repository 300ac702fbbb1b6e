//! What systemd is told of the agent, where it is started by it (`Type=notify`); nothing elsewhere.

use std::{io, time::Duration};

use sd_notify::{NotifyState, notify, watchdog_enabled};
use tokio::time::sleep;
use tracing::warn;

/// Says that it translates, and from now on that it is alive, as often as `WatchdogSec=` asks for. What says it
/// runs in the thread of the event loop: when that is stuck, it is not said, and systemd starts the agent anew.
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

/// Says that it ends.
pub(super) fn stopping() {
    complain(notify(&[NotifyState::Stopping]));
}

fn complain(said: io::Result<()>) {
    if let Err(error) = said {
        warn!(%error, "systemd cannot be told how the agent is");
    }
}
