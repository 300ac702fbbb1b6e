//! New answers on their way to those who follow.
//!
//! Ten thousand who follow one question are ten thousand tasks to wake. That is not the event loop's
//! work: it leaves the answer here, and a thread wakes them.

use std::{
    collections::HashMap,
    io, mem,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak},
    thread,
};

use shunt_model::Query;
use tokio::sync::watch;

use crate::{lookup::observed::Observed, priority::give_way};

/// The end at which everyone who follows a question is reached.
pub(super) type Readers = watch::Sender<Arc<Observed>>;

/// A question's new answer, and who is to get it.
pub(super) type New = (Query, Weak<Readers>, Arc<Observed>);

/// Answers that those who follow are yet to get: of each question the newest.
#[derive(Debug, Default)]
struct Waiting {
    answers: HashMap<Query, (Weak<Readers>, Arc<Observed>)>,
    is_ending: bool,
}

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    something_waits: Condvar,
}

/// Hands answers on, by a thread that runs as long as this is there.
#[derive(Debug)]
pub(super) struct Relay(Arc<Shared>);

impl Relay {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub(super) fn start() -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let of_thread = Arc::clone(&shared);
        thread::Builder::new()
            .name("followers".into())
            .spawn(move || {
                give_way();
                of_thread.run();
            })?;
        Ok(Self(shared))
    }

    /// Has these answers handed on.
    pub(super) fn hand_on(&self, answers: impl Iterator<Item = New>) {
        let mut waiting = self.0.lock();
        for (query, readers, newest) in answers {
            waiting.answers.insert(query, (readers, newest));
        }
        drop(waiting);
        self.0.something_waits.notify_one();
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.0.lock().is_ending = true;
        self.0.something_waits.notify_one();
    }
}

impl Shared {
    /// The value, also if the other thread panicked with it: each change of it is whole.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        loop {
            let mut waiting = self.lock();
            while waiting.answers.is_empty() && !waiting.is_ending {
                let woken = self.something_waits.wait(waiting);
                waiting = woken.unwrap_or_else(PoisonError::into_inner);
            }
            if waiting.is_ending {
                return;
            }
            let answers = mem::take(&mut waiting.answers);
            drop(waiting);
            for (readers, newest) in answers.into_values() {
                // If there is no follower any more, none is notified.
                if let Some(readers) = readers.upgrade() {
                    readers.send_replace(newest);
                }
            }
        }
    }
}
