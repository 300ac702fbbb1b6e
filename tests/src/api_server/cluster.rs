//! The objects, and how they came to be.

use std::{collections::BTreeMap, sync::Arc};

use hyper::body::Bytes;
use serde_json::Value;

use super::{
    defaults::write_defaults, faults::Step, kind::Kind, merge::merge, object::Object,
    selector::Selector, target::Target,
};

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

/// Result of writing a status: the object.
pub(super) type StatusOutcome = Result<Bytes, StatusError>;

/// Reason why a status is not written.
pub(super) enum StatusError {
    /// There is no such object.
    Missing,
    /// It is another version by now.
    Conflict,
    /// No client could read it.
    Invalid,
}

impl Cluster {
    /// Adds or replaces an object; of one with a status of its own, all but that.
    pub(super) fn put(&mut self, mut object: Value) {
        let key = key(&object);
        write_defaults(key.0, &mut object);
        if key.0.has_status() {
            let before = self.objects.get(&key).map(|object| object.value());
            count_generations(&mut object, before.as_ref(), self.version);
        }
        self.set(key, object);
    }

    /// Replaces the status of an object by what a merge patch makes of it.
    pub(super) fn patch_status(&mut self, target: &Target, patch: &Value) -> StatusOutcome {
        let name = target.name.clone().unwrap_or_default();
        let key = (target.kind, target.namespace.clone(), name);
        let before = self.objects.get(&key).ok_or(StatusError::Missing)?.value();
        let version = &patch["metadata"]["resourceVersion"];
        if !version.is_null() && *version != before["metadata"]["resourceVersion"] {
            return Err(StatusError::Conflict);
        }
        let mut status = before["status"].clone();
        merge(&mut status, patch["status"].clone());
        let entries = status["parents"].as_array();
        if entries.is_some_and(|entries| entries.len() > 32) {
            return Err(StatusError::Invalid);
        }
        let mut object = before.clone();
        object["status"] = status;
        if object != before {
            self.set(key.clone(), object);
        }
        self.objects
            .get(&key)
            .map(|object| object.text().clone())
            .ok_or(StatusError::Missing)
    }

    /// Has the status of an object be this.
    pub(super) fn set_status(&mut self, object: &Value, status: Value) {
        let key = key(object);
        if let Some(before) = self.objects.get(&key) {
            let mut object = before.value();
            object["status"] = status;
            self.set(key, object);
        }
    }

    /// Makes an object of those of which clients make some, with the name that it has or a new one.
    pub(super) fn create(&mut self, target: &Target, mut object: Value) -> StatusOutcome {
        let version = self.version + 1;
        let metadata = &mut object["metadata"];
        let name = match (metadata["name"].as_str(), metadata["generateName"].as_str()) {
            (Some(name), _) => name.to_owned(),
            // Names of objects that are made one after the other are in no order.
            (None, Some(prefix)) => {
                format!("{prefix}{:05x}", version.wrapping_mul(40_503) % 0xf_ffff)
            }
            (None, None) => return Err(StatusError::Invalid),
        };
        metadata["name"] = name.clone().into();
        metadata["namespace"] = target.namespace.clone().into();
        metadata["uid"] = format!("uid-{version}").into();
        metadata["generation"] = 1.into();
        let key = (target.kind, target.namespace.clone(), name);
        if self.objects.contains_key(&key) {
            return Err(StatusError::Conflict);
        }
        self.checked(&key, object)
    }

    /// Replaces an object by another one, if that was made of it as it is.
    pub(super) fn replace(&mut self, target: &Target, mut object: Value) -> StatusOutcome {
        let name = target.name.clone().unwrap_or_default();
        let key = (target.kind, target.namespace.clone(), name);
        let before = self.objects.get(&key).ok_or(StatusError::Missing)?.value();
        let version = &object["metadata"]["resourceVersion"];
        if !version.is_null() && *version != before["metadata"]["resourceVersion"] {
            return Err(StatusError::Conflict);
        }
        let generation = before["metadata"]["generation"].as_u64().unwrap_or(0);
        object["metadata"]["uid"] = before["metadata"]["uid"].clone();
        object["metadata"]["generation"] = (generation + 1).into();
        self.checked(&key, object)
    }

    /// Removes an object, if it is the one that is meant.
    pub(super) fn remove(&mut self, target: &Target, options: &Value) -> StatusOutcome {
        let name = target.name.clone().unwrap_or_default();
        let key = (target.kind, target.namespace.clone(), name);
        let before = self.objects.get(&key).ok_or(StatusError::Missing)?.value();
        for field in ["resourceVersion", "uid"] {
            let wanted = &options["preconditions"][field];
            if !wanted.is_null() && *wanted != before["metadata"][field] {
                return Err(StatusError::Conflict);
            }
        }
        self.remove_key(&key);
        Ok(Bytes::from_static(
            br#"{"kind":"Status","status":"Success"}"#,
        ))
    }

    /// Has the object be this, if a server takes it.
    fn checked(&mut self, key: &Key, mut object: Value) -> StatusOutcome {
        write_defaults(key.0, &mut object);
        let endpoints = object["endpoints"]
            .as_array()
            .map_or(&[][..], Vec::as_slice);
        let has_addresses = |endpoint: &Value| {
            let addresses = endpoint["addresses"].as_array();
            addresses.is_some_and(|addresses| !addresses.is_empty() && addresses.len() <= 100)
        };
        if endpoints.len() > 1000 || !endpoints.iter().all(has_addresses) {
            return Err(StatusError::Invalid);
        }
        self.set(key.clone(), object);
        let made = self.objects.get(key).ok_or(StatusError::Missing)?;
        Ok(made.text().clone())
    }

    /// Returns the changes of the objects of a kind, in order: each as it was before and after.
    pub(super) fn history(&self, kind: Kind) -> Vec<Step> {
        let changes = self.changes.iter().filter(|change| change.kind == kind);
        changes
            .map(|change| {
                let value = |object: &Option<Arc<Object>>| object.as_ref().map(|one| one.value());
                (value(&change.before), value(&change.after))
            })
            .collect()
    }

    fn set(&mut self, key: Key, object: Value) {
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
        self.remove_key(&key(object));
    }

    fn remove_key(&mut self, key: &Key) {
        if let Some(before) = self.objects.remove(key) {
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
        // A client that is up to date is not, either.
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

    /// The object of this name.
    pub(super) fn get(&self, kind: Kind, namespace: &str, name: &str) -> Option<&Bytes> {
        let key = (kind, namespace.to_owned(), name.to_owned());
        Some(self.objects.get(&key)?.text())
    }

    /// The object of this kind and name, all of it.
    pub(super) fn find(&self, object: &Value) -> Option<Value> {
        Some(self.objects.get(&key(object))?.value())
    }

    /// Returns whether there are objects of this kind in this version of the API. Those of kinds that have to
    /// be defined are there in the versions that the definition serves.
    pub(super) fn serves(&self, kind: Kind, version: &str) -> bool {
        let Some(name) = kind.definition() else {
            return version == "v1";
        };
        let definition = self.objects.get(&(Kind::Definition, String::new(), name));
        definition.is_some_and(|definition| {
            let definition = definition.value();
            let versions = definition["spec"]["versions"].as_array();
            let mut versions = versions.into_iter().flatten();
            versions.any(|one| one["name"] == version && one["served"] == true)
        })
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

    /// Returns the changes since `version`, a line each, for a client with this selector: an object
    /// that is none of the selected any more is gone.
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

/// Sets the server's own fields of an object: its identity, and the number of changes of anything but its status.
fn count_generations(object: &mut Value, before: Option<&Value>, version: u64) {
    let metadata = |field: &str| before.map(|before| before["metadata"][field].clone());
    let counted = metadata("generation").and_then(|count| count.as_u64());
    let is_same = before.is_some_and(|before| before["spec"] == object["spec"]);
    let count = counted.unwrap_or(0) + u64::from(!is_same);
    object["metadata"]["generation"] = count.into();
    object["metadata"]["uid"] = metadata("uid").unwrap_or_else(|| format!("uid-{version}").into());
    if let Some(before) = before
        && !before["status"].is_null()
    {
        object["status"] = before["status"].clone();
    }
}

fn key(object: &Value) -> Key {
    let said = |name: &str| object[name].as_str().unwrap_or_default();
    let kind = Kind::of(said("kind"), said("apiVersion"));
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
