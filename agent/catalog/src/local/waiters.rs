//! Clients that wait for something to change.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use crate::local::state::effects::Subject;

/// Largest number of clients that wait at once.
const MOST: usize = 4096;

/// Subject that a client waits for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Awaited {
    /// Another content of the service of this id.
    Content(String),
    /// A change of a part of the registrations.
    Change(Subject),
}

/// Clients that wait, by what they wait for: a change wakes those that it concerns, and no others.
#[derive(Debug, Default)]
pub(crate) struct Waiters(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    /// With how many wait there.
    bells: HashMap<Awaited, (Arc<Notify>, usize)>,
    total: usize,
}

/// The place of a client that waits, which is free as soon as this is dropped.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    waiters: &'a Waiters,
    awaited: Awaited,
    bell: Arc<Notify>,
}

impl Waiters {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place to wait for this; `None`: all are taken.
    pub(crate) fn enter(&self, awaited: Awaited) -> Option<Place<'_>> {
        let mut waiting = self.lock();
        if waiting.total >= MOST {
            return None;
        }
        waiting.total += 1;
        let (bell, count) = waiting.bells.entry(awaited.clone()).or_default();
        *count += 1;
        let bell = Arc::clone(bell);
        Some(Place {
            waiters: self,
            awaited,
            bell,
        })
    }

    /// Wakes the clients that wait for one of these.
    pub(crate) fn wake(&self, those: impl IntoIterator<Item = Awaited>) {
        let waiting = self.lock();
        for awaited in those {
            if let Some((bell, _)) = waiting.bells.get(&awaited) {
                bell.notify_waiters();
            }
        }
    }

    /// Returns the number of clients that wait.
    pub(crate) fn count(&self) -> usize {
        self.lock().total
    }
}

impl Place<'_> {
    /// Returns the bell that rings when it has changed.
    pub(crate) fn bell(&self) -> &Notify {
        &self.bell
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut waiting = self.waiters.lock();
        waiting.total -= 1;
        if let Some((_, count)) = waiting.bells.get_mut(&self.awaited) {
            *count -= 1;
            if *count == 0 {
                waiting.bells.remove(&self.awaited);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_as_soon_as_it_is_left() {
        let waiters = Waiters::default();
        let web = || Awaited::Content("web".to_owned());
        let places: Vec<_> = (0..MOST).map(|_| waiters.enter(web()).unwrap()).collect();
        let all = || Awaited::Change(Subject::All);
        assert!(waiters.enter(all()).is_none(), "all are taken");
        drop(places);
        assert_eq!(waiters.count(), 0);
        assert!(waiters.lock().bells.is_empty(), "nothing is left of it");
        drop(waiters.enter(all()).unwrap());
    }
}
