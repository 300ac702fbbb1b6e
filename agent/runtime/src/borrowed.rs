//! Memory for answers about all there is: the system has it back when they are gone.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use shunt_datapath::release_memory;
use tokio::{runtime::Handle, time::sleep};

/// Time after an answer before its memory goes back: another one may need it at once.
const AFTER: Duration = Duration::from_secs(1);

/// Gives memory back, once for all answers that end together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lender {
    is_due: Arc<AtomicBool>,
}

/// Held while an answer is in memory.
#[derive(Debug)]
pub struct Borrowed {
    lender: Lender,
    runtime: Handle,
}

impl Lender {
    /// Notes that a large answer is being made; to be called in a runtime.
    pub(crate) fn lend(&self) -> Borrowed {
        Borrowed {
            lender: self.clone(),
            runtime: Handle::current(),
        }
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        let Self { lender, runtime } = self;
        if lender.is_due.swap(true, Ordering::AcqRel) {
            return;
        }
        let is_due = Arc::clone(&lender.is_due);
        runtime.spawn(async move {
            sleep(AFTER).await;
            // Before memory is looked for: what is freed from here on has the next turn.
            is_due.store(false, Ordering::Release);
            drop(tokio::task::spawn_blocking(release_memory).await);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn answers_that_end_together_have_one_turn() {
        let lender = Lender::default();
        let (one, other) = (lender.lend(), lender.lend());
        assert!(!lender.is_due.load(Ordering::Acquire));
        drop(one);
        drop(other);
        assert!(lender.is_due.load(Ordering::Acquire));
        while lender.is_due.load(Ordering::Acquire) {
            sleep(AFTER / 10).await;
        }
    }
}
