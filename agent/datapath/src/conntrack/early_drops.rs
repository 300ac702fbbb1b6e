//! How many connections had to go before their time.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// A count of connections that the collector removed for room; its clones count together.
#[derive(Debug, Clone, Default)]
pub(crate) struct EarlyDrops(Arc<AtomicU64>);

impl EarlyDrops {
    /// Counts `connections` more.
    pub(crate) fn add(&self, connections: usize) {
        self.0.fetch_add(connections as u64, Ordering::Relaxed);
    }

    /// How many there were.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
