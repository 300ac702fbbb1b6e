//! Leases of `coordination.k8s.io/v1`: made, read and patched in a version, as candidates of an election do.

use std::collections::BTreeMap;

use serde_json::Value;

use super::merge::merge;

/// Path of them in the API: `PREFIX/NAMESPACE/leases`, and behind it a name.
const PREFIX: &str = "/apis/coordination.k8s.io/v1/namespaces/";

/// An answer: its status, and the object; or what is wrong, with its reason.
pub(super) type Outcome = Result<(u16, Value), (u16, &'static str)>;

/// All Leases, by namespace and name.
#[derive(Debug, Default)]
pub(super) struct Leases {
    all: BTreeMap<(String, String), Value>,
    /// The last version of any of them.
    version: u64,
}

/// A request for Leases: method, and which one.
pub(super) struct Asked {
    method: String,
    namespace: String,
    name: String,
}

impl Asked {
    /// Returns the request, if it is for Leases.
    pub(super) fn of(method: &str, path: &str) -> Option<Self> {
        let (namespace, rest) = path.strip_prefix(PREFIX)?.split_once('/')?;
        let name = rest.strip_prefix("leases")?.trim_start_matches('/');
        Some(Self {
            method: method.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }
}

impl Leases {
    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<&Value> {
        self.all.get(&(namespace.to_owned(), name.to_owned()))
    }

    /// Has the Lease be this, or, without one, be none.
    pub(super) fn set(&mut self, namespace: &str, name: &str, lease: Option<Value>) {
        let key = (namespace.to_owned(), name.to_owned());
        match lease {
            Some(lease) => drop(self.put(key, lease)),
            None => drop(self.all.remove(&key)),
        }
    }

    /// Has the Lease be this, in a version of its own.
    fn put(&mut self, key: (String, String), mut lease: Value) -> Value {
        self.version += 1;
        lease["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.all.insert(key, lease.clone());
        lease
    }

    /// The answer to a request with this body.
    pub(super) fn answer(&mut self, asked: Asked, body: &[u8]) -> Outcome {
        let Asked {
            method,
            namespace,
            name,
        } = asked;
        match &*method {
            "GET" => {
                let found = self.get(&namespace, &name);
                found.map_or(Err((404, "NotFound")), |lease| Ok((200, lease.clone())))
            }
            "POST" => {
                let mut lease: Value =
                    serde_json::from_slice(body).map_err(|_| (400, "BadRequest"))?;
                let name = lease["metadata"]["name"].as_str().unwrap_or_default();
                let key = (namespace.clone(), name.to_owned());
                if self.all.contains_key(&key) {
                    return Err((409, "AlreadyExists"));
                }
                lease["metadata"]["namespace"] = namespace.into();
                Ok((201, self.put(key, lease)))
            }
            "PATCH" => {
                let patch: Value = serde_json::from_slice(body).map_err(|_| (400, "BadRequest"))?;
                let key = (namespace, name);
                let known = self.all.get(&key).ok_or((404, "NotFound"))?;
                let version = &patch["metadata"]["resourceVersion"];
                if !version.is_null() && *version != known["metadata"]["resourceVersion"] {
                    return Err((409, "Conflict"));
                }
                let mut lease = known.clone();
                merge(&mut lease, patch);
                // What changes nothing makes no version.
                if lease == *known {
                    return Ok((200, lease));
                }
                Ok((200, self.put(key, lease)))
            }
            _ => Err((405, "MethodNotAllowed")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_lease_is_not_patched_by_those_who_know_an_earlier_version() {
        let mut leases = Leases::default();
        let path = format!("{PREFIX}kube-system/leases");
        let one = format!("{path}/l");
        let by = |holder: &str, version: Option<&str>| {
            json!({
                "metadata": { "resourceVersion": version }, "spec": { "holderIdentity": holder },
            })
        };
        let new = json!({ "metadata": { "name": "l" } });
        for (method, path, body, status) in [
            ("GET", &one, &json!(null), 404),
            ("PATCH", &one, &by("a", Some("1")), 404),
            ("POST", &path, &new, 201),
            ("POST", &path, &new, 409),
            ("PATCH", &one, &by("a", Some("1")), 200),
            ("PATCH", &one, &by("b", Some("1")), 409),
            // It changes nothing.
            ("PATCH", &one, &by("a", Some("2")), 200),
            ("PATCH", &one, &by("b", Some("2")), 200),
            ("PATCH", &one, &by("c", None), 200),
            ("DELETE", &one, &json!(null), 405),
        ] {
            let asked = Asked::of(method, path).unwrap();
            let outcome = leases.answer(asked, body.to_string().as_bytes());
            let found = outcome.map_or_else(|(status, _)| status, |(status, _)| status);
            assert_eq!(found, status, "{method} {body}");
        }
        let lease = leases.get("kube-system", "l").unwrap();
        assert_eq!(lease["spec"]["holderIdentity"], "c");
        assert_eq!(lease["metadata"]["resourceVersion"], "4");
        assert!(Asked::of("GET", "/api/v1/services").is_none());
    }
}
