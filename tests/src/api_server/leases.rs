//! Leases of `coordination.k8s.io/v1`: made, read and patched, as candidates of an election do.

use std::collections::BTreeMap;

use serde_json::Value;

use super::merge::merge;

/// Path of them in the API: `PREFIX/NAMESPACE/leases`, and behind it a name.
const PREFIX: &str = "/apis/coordination.k8s.io/v1/namespaces/";

/// The type of a server-side apply.
const APPLY: &str = "application/apply-patch+yaml";

/// An answer: its status, and the object; or what is wrong, with its reason.
pub(super) type Outcome = Result<(u16, Value), (u16, &'static str)>;

/// All Leases, by namespace and name.
#[derive(Debug, Default)]
pub(super) struct Leases(BTreeMap<(String, String), Value>);

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
        self.0.get(&(namespace.to_owned(), name.to_owned()))
    }

    /// Has the Lease be this, or, without one, be none.
    pub(super) fn set(&mut self, namespace: &str, name: &str, lease: Option<Value>) {
        let key = (namespace.to_owned(), name.to_owned());
        match lease {
            Some(lease) => drop(self.0.insert(key, lease)),
            None => drop(self.0.remove(&key)),
        }
    }

    /// The answer to a request with a body of this type.
    pub(super) fn answer(&mut self, asked: Asked, content_type: &str, body: &[u8]) -> Outcome {
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
                if self.0.contains_key(&key) {
                    return Err((409, "AlreadyExists"));
                }
                lease["metadata"]["namespace"] = namespace.into();
                self.0.insert(key, lease.clone());
                Ok((201, lease))
            }
            "PATCH" => {
                let patch: Value = serde_json::from_slice(body).map_err(|_| (400, "BadRequest"))?;
                let lease = self.0.get_mut(&(namespace, name));
                let lease = lease.ok_or((404, "NotFound"))?;
                // A client that applies a field that another one has set is refused, unless it is the same.
                let held = |lease: &Value| {
                    let holder = &lease["spec"]["holderIdentity"];
                    holder.as_str().map(str::to_owned)
                };
                if content_type == APPLY
                    && let (Some(held), Some(wanted)) = (held(lease), held(&patch))
                    && held != wanted
                {
                    return Err((409, "Conflict"));
                }
                merge(lease, patch);
                Ok((200, lease.clone()))
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
    fn a_lease_that_is_held_is_not_applied_by_another_one() {
        let mut leases = Leases::default();
        let path = format!("{PREFIX}kube-system/leases");
        let one = format!("{path}/l");
        let of = |holder: Option<&str>| json!({ "spec": { "holderIdentity": holder } });
        let new = json!({ "metadata": { "name": "l" } });
        for (method, path, content_type, body, status) in [
            ("GET", &one, "", &json!(null), 404),
            ("PATCH", &one, APPLY, &of(Some("a")), 404),
            ("POST", &path, "", &new, 201),
            ("POST", &path, "", &new, 409),
            ("PATCH", &one, APPLY, &of(Some("a")), 200),
            ("PATCH", &one, APPLY, &of(Some("a")), 200),
            ("PATCH", &one, APPLY, &of(Some("b")), 409),
            ("PATCH", &one, "", &of(None), 200),
            ("PATCH", &one, APPLY, &of(Some("b")), 200),
            ("DELETE", &one, "", &json!(null), 405),
        ] {
            let asked = Asked::of(method, path).unwrap();
            let outcome = leases.answer(asked, content_type, body.to_string().as_bytes());
            let found = outcome.map_or_else(|(status, _)| status, |(status, _)| status);
            assert_eq!(found, status, "{method} {content_type} {body}");
        }
        let lease = leases.get("kube-system", "l").unwrap();
        assert_eq!(lease["spec"]["holderIdentity"], "b");
        assert!(Asked::of("GET", "/api/v1/services").is_none());
    }
}
