//! Pairs of services of which one waits for frontends of the other.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use shunt_model::{Conflict, ServiceId};

/// The service that waits, and the holder.
pub(crate) type Pair = (Arc<ServiceId>, Arc<ServiceId>);

/// The services or frontends of which an event has all conflicts.
#[derive(Debug, Clone, Copy)]
pub enum Extent<'a> {
    /// All services.
    All,
    /// This service.
    Service(&'a Arc<ServiceId>),
    /// Some frontends.
    Some,
}

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

    /// Records the pairs of an event, of which it has all of `extent`: others of these are over. What is known of a
    /// pair that may have more than the event has of it is joined with that by `join`.
    pub fn note(
        &mut self,
        extent: Extent<'_>,
        found: impl IntoIterator<Item = (Pair, V)>,
        join: impl Fn(V, V) -> V,
    ) {
        let over: Vec<Pair> = match extent {
            Extent::All => self.values.keys().cloned().collect(),
            Extent::Service(id) => self.of.get(id).into_iter().flatten().cloned().collect(),
            Extent::Some => Vec::new(),
        };
        for pair in &over {
            self.remove(pair);
        }
        for (pair, new) in found {
            let value = match self.values.remove(&pair) {
                Some(known) => join(known, new),
                None => new,
            };
            self.insert(pair, value);
        }
    }

    fn insert(&mut self, pair: Pair, value: V) {
        for id in [&pair.0, &pair.1] {
            let of = self.of.entry(Arc::clone(id)).or_default();
            of.insert(pair.clone());
        }
        self.values.insert(pair, value);
    }

    fn remove(&mut self, pair: &Pair) {
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
