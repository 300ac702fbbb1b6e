//! Waits of loops that may have nothing to wait for.

use std::{convert::Infallible, future::pending, time::Duration};

use tokio::{
    sync::oneshot,
    time::{Instant, sleep, sleep_until},
};

/// Waits until `time`; for ever if there is none.
pub async fn until(time: Option<impl Into<Instant>>) {
    match time {
        Some(time) => sleep_until(time.into()).await,
        None => pending().await,
    }
}

/// Waits for so long; for ever if it is `None`.
pub async fn after(time: Option<Duration>) {
    match time {
        Some(time) => sleep(time).await,
        None => pending().await,
    }
}

/// Waits until the turn of an event has come: the queue drops the sender then. For ever if there is none.
pub async fn come(turn: &mut Option<oneshot::Receiver<Infallible>>) {
    match turn {
        Some(turn) => drop(turn.await),
        None => pending().await,
    }
}
