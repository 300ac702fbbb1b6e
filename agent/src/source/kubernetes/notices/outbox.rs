//! The way of what users are told, from whoever finds it to the recorder.

use std::sync::Arc;

use tokio::sync::mpsc::{self, Receiver, Sender};
use tracing::debug;

use crate::{
    runtime::{meters::Told, reports::Reports},
    source::kubernetes::notices::notice::Notice,
};

/// How many may wait for the API server.
const AHEAD: usize = 64;

/// Where what users are to be told is left, without waiting.
#[derive(Debug)]
pub(in super::super) struct Outbox {
    notices: Sender<Notice>,
    reports: Arc<Reports>,
}

impl Outbox {
    /// One, and its other end.
    pub(in super::super) fn new(reports: Arc<Reports>) -> (Self, Receiver<Notice>) {
        let (notices, receiver) = mpsc::channel(AHEAD);
        (Self { notices, reports }, receiver)
    }

    /// Has a user told, if there is room.
    pub(in super::super) fn put(&self, notice: Notice) {
        if let Err(error) = self.notices.try_send(notice) {
            self.reports.meters().told(Told::Dropped);
            debug!("an Event is dropped: {error}");
        }
    }
}
