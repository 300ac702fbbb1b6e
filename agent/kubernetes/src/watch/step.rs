//! The news of a watch.

use std::collections::BTreeSet;

use crate::watch::item::full_name;

/// News of the objects of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step<T> {
    /// These are all that there are. Never a part of them.
    Listed(List<T>),
    /// The object is new, or is in this form now.
    Applied(T),
    /// The object is gone, or is none of those that are asked for any more. Of it no more than the metadata is
    /// read.
    Deleted(T),
    /// These cannot be read. What was known of each stays.
    Unreadable(UnreadableObjects),
    /// The server answers, and what is known is up to date.
    Alive,
    /// The server does not answer, or not with what is asked for; what is known stays.
    Lost(String),
    /// The server has no objects of this kind to give, and why.
    Absent(String),
}

/// All objects of a kind: those that can be read, and the names of the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct List<T> {
    pub(crate) objects: Vec<T>,
    unreadable: BTreeSet<String>,
}

impl<T> List<T> {
    /// Returns a list of the objects that can be read, and the names of the others, with their namespaces'.
    pub(crate) const fn new(objects: Vec<T>, unreadable: BTreeSet<String>) -> Self {
        Self {
            objects,
            unreadable,
        }
    }

    /// Returns whether the server has an object of this name that cannot be read, so that what is known of it
    /// stays. `namespace`: empty for a kind without namespaces.
    pub(crate) fn keeps(&self, namespace: &str, name: &str) -> bool {
        !self.unreadable.is_empty() && self.unreadable.contains(&full_name(Some(namespace), name))
    }
}

impl<T> Step<T> {
    /// These are all that there are, and all of them can be read.
    pub(crate) const fn listed(objects: Vec<T>) -> Self {
        Self::Listed(List::new(objects, BTreeSet::new()))
    }
}

/// The objects of a kind that cannot be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct UnreadableObjects {
    /// Number of them.
    pub(crate) count: u64,
    /// The first ones by name, and why.
    pub(crate) first: Vec<(String, String)>,
}
