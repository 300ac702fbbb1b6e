//! Events of `events.k8s.io/v1`: made, and counted up in their series, with the checks of a real
//! server that a client can fail.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::merge::merge;

/// Path of them in the API: `PREFIX/NAMESPACE/events`, and behind it a name.
const PREFIX: &str = "/apis/events.k8s.io/v1/namespaces/";

/// The longest texts in bytes.
const NOTE: usize = 1024;
const SHORT: usize = 128;

/// An answer: its status, and the object or what is wrong.
pub(super) type Outcome = Result<(u16, Value), (u16, &'static str)>;

/// All Events, by namespace and name.
#[derive(Debug, Default)]
pub(super) struct Events(BTreeMap<(String, String), Value>);

/// A request for Events.
pub(super) enum Asked {
    Create(String),
    Patch(String, String),
}

impl Asked {
    /// Returns the request, if it is for Events.
    pub(super) fn of(method: &str, path: &str) -> Option<Self> {
        let (namespace, rest) = path.strip_prefix(PREFIX)?.split_once('/')?;
        let namespace = namespace.to_owned();
        let name = rest
            .strip_prefix("events")
            .map(|name| name.trim_start_matches('/'))?;
        match (method, name) {
            ("POST", "") => Some(Self::Create(namespace)),
            ("PATCH", name) if !name.is_empty() => Some(Self::Patch(namespace, name.to_owned())),
            _ => None,
        }
    }
}

impl Events {
    pub(super) fn all(&self) -> Vec<Value> {
        self.0.values().cloned().collect()
    }

    pub(super) fn answer(&mut self, asked: Asked, body: &[u8]) -> Outcome {
        let body: Value = serde_json::from_slice(body).map_err(|_| (400, "no JSON"))?;
        match asked {
            Asked::Create(namespace) => self.create(namespace, body),
            Asked::Patch(namespace, name) => self.patch(&(namespace, name), body),
        }
    }

    fn create(&mut self, namespace: String, mut event: Value) -> Outcome {
        let name = event["metadata"]["name"].as_str().unwrap_or_default();
        let key = (namespace, name.to_owned());
        if key.1.is_empty() || event["metadata"]["namespace"] != *key.0 {
            return Err((422, "metadata: no name, or another namespace"));
        }
        if self.0.contains_key(&key) {
            return Err((409, "there is one of this name"));
        }
        valid(&event, &key.0)?;
        event["metadata"]["uid"] = format!("event-{}", self.0.len()).into();
        self.0.insert(key, event.clone());
        Ok((201, event))
    }

    fn patch(&mut self, key: &(String, String), patch: Value) -> Outcome {
        let Some(event) = self.0.get_mut(key) else {
            return Err((404, "no such Event"));
        };
        let mut new = event.clone();
        merge(&mut new, patch);
        valid(&new, &key.0)?;
        if new["series"]["count"].as_u64() < Some(2) || new["series"]["lastObservedTime"].is_null()
        {
            return Err((422, "series: it says neither how often nor when"));
        }
        let apart = |mut event: Value| {
            event["series"] = json!(null);
            event
        };
        if apart(new.clone()) != apart(event.clone()) {
            return Err((422, "nothing but the series changes"));
        }
        *event = new;
        Ok((200, event.clone()))
    }
}

/// Checks an Event by the rules of `events.k8s.io/v1`.
fn valid(event: &Value, namespace: &str) -> Result<(), (u16, &'static str)> {
    let text = |field: &str| event[field].as_str().unwrap_or_default();
    if text("eventTime").is_empty() || !matches!(text("type"), "Normal" | "Warning") {
        return Err((422, "eventTime or type"));
    }
    for field in [
        "action",
        "reason",
        "reportingController",
        "reportingInstance",
    ] {
        if text(field).is_empty() || text(field).len() > SHORT {
            return Err((422, "a text is missing, or too long"));
        }
    }
    if text("note").len() > NOTE {
        return Err((422, "note: too long"));
    }
    if event["regarding"]["namespace"] != *namespace {
        return Err((422, "regarding: it is in another namespace"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(note: &str) -> Value {
        json!({
            "metadata": { "namespace": "default", "name": "web.1" },
            "eventTime": "2026-01-01T00:00:00.000000Z", "type": "Warning", "action": "a",
            "reason": "r", "note": note, "reportingController": "c", "reportingInstance": "i",
            "regarding": { "kind": "Service", "namespace": "default", "name": "web" },
        })
    }

    #[test]
    fn events_are_made_once_and_only_their_series_goes_on() {
        let mut events = Events::default();
        let path = format!("{PREFIX}default/events");
        let mut ask = |method: &str, path: &str, body: &Value| {
            let asked = Asked::of(method, path).unwrap();
            let outcome = events.answer(asked, body.to_string().as_bytes());
            outcome.map_or_else(|(status, _)| status, |(status, _)| status)
        };
        let one = format!("{path}/web.1");
        let series = json!({ "series": { "count": 2, "lastObservedTime": "later" } });
        for (method, path, body, status) in [
            ("PATCH", &one, &series, 404),
            ("POST", &path, &event(&"n".repeat(1025)), 422),
            ("POST", &path, &event("n"), 201),
            ("POST", &path, &event("n"), 409),
            ("PATCH", &one, &json!({}), 422),
            ("PATCH", &one, &json!({ "note": "m" }), 422),
            ("PATCH", &one, &series, 200),
        ] {
            assert_eq!(ask(method, path, body), status, "{method} {body}");
        }
        assert_eq!(events.all()[0]["series"]["count"], 2);
        assert!(Asked::of("GET", &path).is_none());
        assert!(Asked::of("POST", "/api/v1/services").is_none());
    }
}
