//! All labels of an object, for selectors.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use foldhash::fast::RandomState;
use kube::core::{Selector, SelectorExt as _};
use serde::{Deserialize, Deserializer};

type Map = BTreeMap<String, String>;

thread_local! {
    /// All sets of labels that this thread has read. Objects are read in one thread.
    static KNOWN: RefCell<HashSet<Arc<Map>, RandomState>> = RefCell::default();
}

/// All labels of an object. Pods of one owner mostly have the same ones, which are kept once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Labels(Arc<Map>);

impl Labels {
    /// Returns the value of a label.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns whether the selector selects an object with these labels.
    pub(super) fn are_selected(&self, selector: &Selector) -> bool {
        selector.matches(&self.0)
    }
}

impl FromIterator<(String, String)> for Labels {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(labels: I) -> Self {
        let labels: Map = labels.into_iter().collect();
        KNOWN.with_borrow_mut(|known| {
            if let Some(known) = known.get(&labels) {
                return Self(Arc::clone(known));
            }
            // Before the set grows.
            if known.len() == known.capacity() {
                known.retain(|labels| Arc::strong_count(labels) > 1);
            }
            let new = Arc::new(labels);
            known.insert(Arc::clone(&new));
            Self(new)
        })
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let labels = Option::<Map>::deserialize(deserializer)?;
        Ok(labels.into_iter().flatten().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(number: usize) -> Labels {
        [("app".to_owned(), number.to_string())]
            .into_iter()
            .collect()
    }

    #[test]
    fn equal_labels_are_kept_once_and_forgotten_with_their_last_object() {
        let (one, other) = (labels(1), labels(1));
        assert!(Arc::ptr_eq(&one.0, &other.0));
        for number in 0..10_000 {
            drop(labels(number));
        }
        let count = KNOWN.with_borrow(HashSet::len);
        assert!(count < 100, "{count}");
        assert!(Arc::ptr_eq(&one.0, &labels(1).0));
    }

    #[test]
    fn labels_that_are_null_are_none() {
        assert_eq!(
            serde_json::from_str::<Labels>("null").unwrap(),
            Labels::default()
        );
    }
}
