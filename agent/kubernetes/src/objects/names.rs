//! Names that many endpoints share, each kept once.

use std::{cell::RefCell, collections::HashSet, fmt, sync::Arc};

use foldhash::fast::RandomState;
use serde::{Deserialize, Deserializer, de};

thread_local! {
    /// All names that this thread has read. Objects are read in one thread.
    static NAMES: RefCell<HashSet<Arc<str>, RandomState>> = RefCell::default();
}

/// The name of a node, of a zone, or of the owner of a pod. Of equal ones that a thread reads there is
/// one, which is found while it is read: a slice has its fifty names without a text of its own for any of
/// them.
#[derive(Debug, Clone)]
pub(super) struct SharedName(pub(super) Arc<str>);

impl<'de> Deserialize<'de> for SharedName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = SharedName;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<SharedName, E> {
                Ok(SharedName(shared(text)))
            }
        }

        deserializer.deserialize_str(Visitor)
    }
}

/// Returns the name, of which there is one.
pub(super) fn shared(text: &str) -> Arc<str> {
    NAMES.with_borrow_mut(|names| {
        if let Some(known) = names.get(text) {
            return Arc::clone(known);
        }
        let new: Arc<str> = text.into();
        names.insert(Arc::clone(&new));
        new
    })
}

/// Forgets the names that are no longer in use.
pub(crate) fn prune() {
    NAMES.with_borrow_mut(|names| names.retain(|name| Arc::strong_count(name) > 1));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_are_one_and_forgotten_ones_are_gone() {
        let name = |text: &str| serde_json::from_str::<SharedName>(text).unwrap().0;
        let (a, b) = (name(r#""node-a""#), name(r#""node-b""#));
        assert!(Arc::ptr_eq(&a, &name(r#""node\u002da""#)));
        assert!(!Arc::ptr_eq(&a, &b));
        drop(b);
        prune();
        let known = NAMES.with_borrow(HashSet::len);
        assert_eq!((known, &*name(r#""node-a""#)), (1, "node-a"));
        assert!(Arc::ptr_eq(&a, &name(r#""node-a""#)));
    }
}
