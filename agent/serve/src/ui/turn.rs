//! Turns for work that no two requests do at once.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{Mutex, OwnedMutexGuard},
    time::timeout,
};

/// A queue of requests, of which one works.
#[derive(Debug, Default)]
pub(super) struct Turn(Arc<Mutex<()>>);

impl Turn {
    /// Waits for the turn, which lasts until the guard is dropped. `None`: the others took longer than this.
    pub(super) async fn wait(&self, patience: Duration) -> Option<OwnedMutexGuard<()>> {
        timeout(patience, Arc::clone(&self.0).lock_owned())
            .await
            .ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_turn_begins_when_the_one_before_ends() {
        let turn = Turn::default();
        let first = turn.wait(Duration::ZERO).await.unwrap();
        assert!(turn.wait(Duration::from_millis(10)).await.is_none());
        let second = turn.wait(Duration::from_hours(1));
        let (second, ()) = tokio::join!(second, async { drop(first) });
        assert!(turn.wait(Duration::ZERO).await.is_none());
        drop(second);
        assert!(turn.wait(Duration::ZERO).await.is_some());
    }
}
