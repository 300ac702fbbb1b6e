//! The life of a connection, which ends with its other end.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// The life of a connection. Clones are of the same one.
#[derive(Debug, Clone, Default)]
pub(in crate::consul) struct Life(Arc<AtomicBool>);

impl Life {
    /// The other end has closed it, or it broke.
    pub(in crate::consul) fn end(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns whether it did.
    pub(in crate::consul) fn has_ended(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
