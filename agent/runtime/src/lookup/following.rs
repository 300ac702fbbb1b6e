//! One who follows a question.

use std::sync::Arc;

use tokio::sync::watch;

use crate::{error::Ending, lookup::observed::Observed};

/// Follows a question: has the newest answer, and hears of the next one. Who is slow misses answers in
/// between, never the newest: nothing is queued for it.
#[derive(Debug)]
pub struct Following {
    current: Arc<Observed>,
    newest: watch::Receiver<Arc<Observed>>,
}

impl Following {
    /// From `current` on, to which `newest` may be yet to come.
    pub(super) const fn new(
        current: Arc<Observed>,
        newest: watch::Receiver<Arc<Observed>>,
    ) -> Self {
        Self { current, newest }
    }

    /// The answer that was given last: the first one at the beginning, and then what
    /// [`changed`](Self::changed) has found.
    pub const fn current(&self) -> &Arc<Observed> {
        &self.current
    }

    /// Waits until the first answer has come, if it has not yet.
    pub(crate) async fn begin(&mut self) -> Result<(), Ending> {
        if self.current.generation == 0 {
            self.changed().await?;
        }
        Ok(())
    }

    /// Waits for an answer that is another than the [current](Self::current) one, which it becomes.
    /// Nothing is lost if this is dropped and called again.
    ///
    /// # Errors
    ///
    /// If the agent is ending.
    pub async fn changed(&mut self) -> Result<&Arc<Observed>, Ending> {
        loop {
            self.newest.changed().await.map_err(|_| Ending)?;
            let newest = Arc::clone(&self.newest.borrow_and_update());
            if newest.generation > self.current.generation {
                self.current = newest;
                return Ok(&self.current);
            }
        }
    }
}
