//! The way to the agent's loop.

use tokio::sync::{mpsc, oneshot};
use tonic::Status;

use crate::request::Request;

/// Asks the agent's loop, and waits for its answers.
#[derive(Debug, Clone)]
pub(super) struct Queue(mpsc::Sender<Request>);

impl Queue {
    pub(super) const fn new(requests: mpsc::Sender<Request>) -> Self {
        Self(requests)
    }

    /// The answer to the request that `request` makes.
    ///
    /// # Errors
    ///
    /// `UNAVAILABLE` if the loop has ended.
    pub(super) async fn ask<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<T>) -> Request,
    ) -> Result<T, Status> {
        let ending = || Status::unavailable("the agent is ending");
        let (answer, answered) = oneshot::channel();
        self.0.send(request(answer)).await.map_err(|_| ending())?;
        answered.await.map_err(|_| ending())
    }
}
