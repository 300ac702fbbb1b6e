//! Pairs of services of which one waits for frontends of the other.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use shunt_model::{Conflict, ServiceId};

/// The service that waits, and the holder.
pub(crate) type Pair = (Arc<ServiceId>, Arc<ServiceId>);

/// Returns the pair of a conflict.
pub fn pair_of(conflict: &Conflict) -> Pair {
    (Arc::clone(&conflict.waiting), Arc::clone(&conflict.holder))
}

/// Pairs with a value each, found by either service: an event has to do with those of one service alone.
#[derive(Debug)]
pub struct Pairs<V> {
    values: BTreeMap<Pair, V>,
    /// Each service with the pairs that it is in.
    of: BTreeMap<Arc<ServiceId>, BTreeSet<Pair>>,
}

impl<V> Default for Pairs<V> {
    fn default() -> Self {
        Self {
            values: BTreeMap::new(),
            of: BTreeMap::new(),
        }
    }
}

impl<V> Pairs<V> {
    /// Returns whether nothing is known, of any service.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty() && self.of.is_empty()
    }

    /// Returns the value of a pair.
    pub fn get(&self, pair: &Pair) -> Option<&V> {
        self.values.get(pair)
    }

    /// Returns all pairs.
    pub fn all(&self) -> Vec<Pair> {
        self.values.keys().cloned().collect()
    }

    /// Returns the pairs that a service is in.
    pub fn of(&self, id: &ServiceId) -> Vec<Pair> {
        self.of.get(id).into_iter().flatten().cloned().collect()
    }

    /// Returns the value of a pair for changes, after it was made by `default` if there was none.
    pub fn entry(&mut self, pair: &Pair, default: impl FnOnce() -> V) -> &mut V {
        if !self.values.contains_key(pair) {
            for id in [&pair.0, &pair.1] {
                let of = self.of.entry(Arc::clone(id)).or_default();
                of.insert(pair.clone());
            }
        }
        self.values.entry(pair.clone()).or_insert_with(default)
    }

    /// Forgets a pair.
    pub fn remove(&mut self, pair: &Pair) {
        self.values.remove(pair);
        for id in [&pair.0, &pair.1] {
            if let Some(of) = self.of.get_mut(id) {
                of.remove(pair);
                if of.is_empty() {
                    self.of.remove(id);
                }
            }
        }
    }
}
