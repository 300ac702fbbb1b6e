//! The tuples of connections that are open, which an attacker is supposed to have guessed.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use shunt_tests::Random;

/// A connection as its client sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tuple {
    pub(crate) client: SocketAddr,
    pub(crate) frontend: SocketAddr,
}

/// The connections of some clients.
#[derive(Debug, Clone, Default)]
pub(crate) struct Live(Arc<Mutex<Vec<Tuple>>>);

impl Live {
    /// Adds a connection.
    pub(crate) fn add(&self, tuple: Tuple) {
        self.with(|tuples| tuples.push(tuple));
    }

    /// Takes a connection out.
    pub(crate) fn remove(&self, tuple: Tuple) {
        self.with(|tuples| tuples.retain(|it| *it != tuple));
    }

    /// One of them.
    pub(crate) fn any(&self, random: &mut Random) -> Option<Tuple> {
        self.with(|tuples| {
            let count = u32::try_from(tuples.len())
                .ok()
                .filter(|count| *count > 0)?;
            tuples.get(random.below(count) as usize).copied()
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut Vec<Tuple>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
