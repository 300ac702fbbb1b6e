//! The way of notices for users, from their finder to the recorder.

use std::sync::Arc;

use shunt_runtime::{Reports, Told};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tracing::debug;

use crate::notices::notice::Notice;

/// Number of notices that may wait for the API server.
const AHEAD: usize = 64;

/// Place where notices for users are left, without waiting.
#[derive(Debug)]
pub(crate) struct Outbox {
    notices: Sender<Notice>,
    reports: Arc<Reports>,
}

impl Outbox {
    /// One, and its other end.
    pub(crate) fn new(reports: Arc<Reports>) -> (Self, Receiver<Notice>) {
        let (notices, receiver) = mpsc::channel(AHEAD);
        (Self { notices, reports }, receiver)
    }

    /// Sends a notice to a user, if there is room.
    pub(crate) fn put(&self, notice: Notice) {
        if let Err(error) = self.notices.try_send(notice) {
            self.reports.meters().told(Told::Dropped);
            debug!("an Event is dropped: {error}");
        }
    }
}
