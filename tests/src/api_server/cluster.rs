//! The objects, and how they came to be.

use std::{collections::BTreeMap, sync::Arc};

use hyper::body::Bytes;
use serde_json::Value;

use super::{faults::Kind, object::Object, selector::Selector};

/// All objects with their versions, and what has changed since the last time that it was forgotten.
#[derive(Debug, Default)]
pub(super) struct Cluster {
    version: u64,
    /// Changes up to this version are forgotten.
    compacted: u64,
    objects: BTreeMap<Key, Arc<Object>>,
    /// In the order of their versions.
    changes: Vec<Change>,
}

type Key = (Kind, String, String);

#[derive(Debug)]
struct Change {
    version: u64,
    kind: Kind,
    before: Option<Arc<Object>>,
    after: Option<Arc<Object>>,
}

/// The changes before a version are not known any more.
pub(super) struct Forgotten;

impl Cluster {
    pub(super) fn put(&mut self, object: Value) {
        let key = key(&object);
        self.version += 1;
        let object = Arc::new(Object::new(object, self.version));
        self.changes.push(Change {
            version: self.version,
            kind: key.0,
            after: Some(Arc::clone(&object)),
            before: self.objects.insert(key, object),
        });
    }

    pub(super) fn delete(&mut self, object: &Value) {
        let key = key(object);
        if let Some(before) = self.objects.remove(&key) {
            self.version += 1;
            self.changes.push(Change {
                version: self.version,
                kind: key.0,
                before: Some(before),
                after: None,
            });
        }
    }

    pub(super) fn compact(&mut self) {
        // Whoever is up to date is not, either.
        self.version += 1;
        self.forget_known();
    }

    pub(super) fn forget_known(&mut self) {
        self.compacted = self.version;
        self.changes.clear();
    }

    pub(super) const fn version(&self) -> u64 {
        self.version
    }

    /// The object of this name that is in no namespace.
    pub(super) fn get(&self, kind: Kind, name: &str) -> Option<&Bytes> {
        let object = self.objects.get(&(kind, String::new(), name.to_owned()))?;
        Some(object.text())
    }

    /// The objects that are asked for, from the one with this number on.
    pub(super) fn list(&self, kind: Kind, selector: &Selector, from: usize) -> Vec<Arc<Object>> {
        let first = (kind, String::new(), String::new());
        let objects = self.objects.range(first..);
        let objects = objects.take_while(|((own, _, _), _)| *own == kind);
        objects
            .map(|(_, object)| object)
            .filter(|object| object.is_selected(selector))
            .skip(from)
            .map(Arc::clone)
            .collect()
    }

    /// What has changed since `version`, a line each, for whoever asks so: an object that is none of
    /// the selected any more is gone.
    pub(super) fn since(
        &self,
        version: u64,
        kind: Kind,
        selector: &Selector,
    ) -> Result<Vec<Bytes>, Forgotten> {
        if version < self.compacted {
            return Err(Forgotten);
        }
        let known = self
            .changes
            .partition_point(|change| change.version <= version);
        let changes = self.changes[known..].iter();
        let changes = changes.filter(|change| change.kind == kind);
        Ok(changes
            .filter_map(|change| change.seen_by(selector))
            .collect())
    }
}

impl Change {
    fn seen_by(&self, selector: &Selector) -> Option<Bytes> {
        let selected = |object: &Option<Arc<Object>>| {
            let object = object.clone();
            object.filter(|object| object.is_selected(selector))
        };
        match (selected(&self.before), selected(&self.after)) {
            (None, None) => None,
            (None, Some(after)) => Some(after.event("ADDED")),
            (Some(_), Some(after)) => Some(after.event("MODIFIED")),
            (Some(before), None) => Some(before.deleted(self.version)),
        }
    }
}

fn key(object: &Value) -> Key {
    let kind = object["kind"].as_str();
    let kind = Kind::ALL.into_iter().find(|one| Some(one.name()) == kind);
    let Some(kind) = kind else {
        panic!("an object of no kind that there is: {object}");
    };
    let text = |name: &str| {
        let text = object["metadata"][name].as_str();
        text.unwrap_or_default().to_owned()
    };
    let key = (kind, text("namespace"), text("name"));
    assert!(!key.2.is_empty(), "an object without a name: {object}");
    key
}
