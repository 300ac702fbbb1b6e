//! The objects, and how they came to be.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{faults::Kind, selector::Selector};

/// All objects with their versions, and what has changed since the last time that it was forgotten.
#[derive(Debug, Default)]
pub(super) struct Cluster {
    version: u64,
    /// Changes up to this version are forgotten.
    compacted: u64,
    objects: BTreeMap<Key, Value>,
    changes: Vec<Change>,
}

type Key = (Kind, String, String);

#[derive(Debug)]
struct Change {
    version: u64,
    key: Key,
    before: Option<Value>,
    after: Option<Value>,
}

/// The changes before a version are not known any more.
pub(super) struct Forgotten;

impl Cluster {
    pub(super) fn put(&mut self, mut object: Value) {
        let key = key(&object);
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let before = self.objects.insert(key.clone(), object.clone());
        self.changes.push(Change {
            version: self.version,
            key,
            before,
            after: Some(object),
        });
    }

    pub(super) fn delete(&mut self, object: &Value) {
        let key = key(object);
        if let Some(before) = self.objects.remove(&key) {
            self.version += 1;
            self.changes.push(Change {
                version: self.version,
                key,
                before: Some(before),
                after: None,
            });
        }
    }

    pub(super) fn compact(&mut self) {
        // Whoever is up to date is not, either.
        self.version += 1;
        self.compacted = self.version;
        self.changes.clear();
    }

    pub(super) const fn version(&self) -> u64 {
        self.version
    }

    /// The object of this name that is in no namespace.
    pub(super) fn get(&self, kind: Kind, name: &str) -> Option<&Value> {
        self.objects.get(&(kind, String::new(), name.to_owned()))
    }

    /// The objects that are asked for, from the one with this number on.
    pub(super) fn list(&self, kind: Kind, selector: &Selector, from: usize) -> Vec<&Value> {
        let objects = self.objects.iter().filter(|((own, _, _), _)| *own == kind);
        let objects = objects.map(|(_, object)| object);
        objects
            .filter(|object| selector.matches(object))
            .skip(from)
            .collect()
    }

    /// What has changed since `version` for whoever asks so: an object that is none of the selected
    /// any more is gone.
    pub(super) fn since(
        &self,
        version: u64,
        kind: Kind,
        selector: &Selector,
    ) -> Result<Vec<Value>, Forgotten> {
        if version < self.compacted {
            return Err(Forgotten);
        }
        let changes = self.changes.iter();
        let changes = changes.filter(|change| change.version > version && change.key.0 == kind);
        Ok(changes
            .filter_map(|change| change.seen_by(selector))
            .collect())
    }
}

impl Change {
    fn seen_by(&self, selector: &Selector) -> Option<Value> {
        let selected = |object: &Option<Value>| {
            let object = object.as_ref();
            object.filter(|object| selector.matches(object)).cloned()
        };
        let (event, object) = match (selected(&self.before), selected(&self.after)) {
            (None, None) => return None,
            (None, Some(after)) => ("ADDED", after),
            (Some(_), Some(after)) => ("MODIFIED", after),
            (Some(mut before), None) => {
                before["metadata"]["resourceVersion"] = self.version.to_string().into();
                ("DELETED", before)
            }
        };
        Some(json!({ "type": event, "object": object }))
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
