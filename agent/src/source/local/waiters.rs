//! Who waits for a service to change.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

/// How many may wait at once.
const MOST: usize = 4096;

/// Those who wait, by service: a change wakes those of its service, and nobody else.
#[derive(Debug, Default)]
pub(crate) struct Waiters(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    /// With how many wait there.
    services: HashMap<String, (Arc<Notify>, usize)>,
    total: usize,
}

/// The place of one who waits, which is free as soon as this is dropped.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    waiters: &'a Waiters,
    service: String,
    bell: Arc<Notify>,
}

impl Waiters {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place to wait for a service; `None`: all are taken.
    pub(crate) fn enter(&self, service: &str) -> Option<Place<'_>> {
        let mut waiting = self.lock();
        if waiting.total >= MOST {
            return None;
        }
        waiting.total += 1;
        let (bell, count) = waiting.services.entry(service.to_owned()).or_default();
        *count += 1;
        let bell = Arc::clone(bell);
        Some(Place {
            waiters: self,
            service: service.to_owned(),
            bell,
        })
    }

    /// Wakes those who wait for one of these services.
    pub(crate) fn wake<'a>(&self, services: impl IntoIterator<Item = &'a String>) {
        let waiting = self.lock();
        for service in services {
            if let Some((bell, _)) = waiting.services.get(service) {
                bell.notify_waiters();
            }
        }
    }

    /// How many wait.
    pub(crate) fn count(&self) -> usize {
        self.lock().total
    }
}

impl Place<'_> {
    /// What rings when the service has changed.
    pub(crate) fn bell(&self) -> &Notify {
        &self.bell
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut waiting = self.waiters.lock();
        waiting.total -= 1;
        if let Some((_, count)) = waiting.services.get_mut(&self.service) {
            *count -= 1;
            if *count == 0 {
                waiting.services.remove(&self.service);
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
        let places: Vec<_> = (0..MOST).map(|_| waiters.enter("web").unwrap()).collect();
        assert!(waiters.enter("db").is_none(), "all are taken");
        drop(places);
        assert_eq!(waiters.count(), 0);
        assert!(waiters.lock().services.is_empty(), "nothing is left of it");
        drop(waiters.enter("db").unwrap());
    }
}
