//! An object as it is sent: serialised once, when it is put, for all requests.

use hyper::body::Bytes;
use serde_json::{Value, json};

use super::selector::Selector;

/// The field that no selector names, and that is most of a large object.
const BULK: &str = "endpoints";

/// An object at one version.
#[derive(Debug)]
pub(super) struct Object {
    text: Bytes,
    /// The rest of it, by which it is selected.
    head: Value,
}

impl Object {
    /// The object as it is at `version`.
    pub(super) fn new(mut object: Value, version: u64) -> Self {
        object["metadata"]["resourceVersion"] = version.to_string().into();
        let text = Bytes::from(object.to_string());
        if let Some(fields) = object.as_object_mut() {
            fields.remove(BULK);
        }
        Self { text, head: object }
    }

    /// The object as JSON.
    pub(super) const fn text(&self) -> &Bytes {
        &self.text
    }

    /// The object, all of it.
    pub(super) fn value(&self) -> Value {
        serde_json::from_slice(&self.text).unwrap_or_default()
    }

    /// Returns whether it is asked for.
    pub(super) fn is_selected(&self, selector: &Selector) -> bool {
        selector.matches(&self.head)
    }

    /// The line of a watch with its change.
    pub(super) fn event(&self, kind: &str) -> Bytes {
        let mut line = Vec::with_capacity(self.text.len() + 64);
        line.extend_from_slice(br#"{"type":""#);
        line.extend_from_slice(kind.as_bytes());
        line.extend_from_slice(br#"","object":"#);
        line.extend_from_slice(&self.text);
        line.extend_from_slice(b"}\n");
        line.into()
    }

    /// The line of a watch that reports it gone since `version`.
    pub(super) fn deleted(&self, version: u64) -> Bytes {
        let mut object = self.value();
        object["metadata"]["resourceVersion"] = version.to_string().into();
        let event = json!({ "type": "DELETED", "object": object });
        format!("{event}\n").into()
    }
}
