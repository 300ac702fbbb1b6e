//! The requests that checks of HTTP may send. The agent sends them, often as root, and any process of this
//! host may register one: such a check must not change anything, and must not speak in another's name.

use std::{collections::BTreeMap, iter};

use crate::local::{
    definition::check::{CheckDefinition, Probe},
    state::{check::Check, refusal::Refusal, register::Change, service::Origin},
};

/// Methods that only read (RFC 9110, section 9.2.1).
const METHODS: [&str; 4] = ["", "GET", "HEAD", "OPTIONS"];

/// Headers that choose the form of an answer, in lower case. None of them shows the client, or a proxy before it.
const HEADERS: [&str; 7] = [
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "cache-control",
    "pragma",
    "user-agent",
];

/// Number of checks that are named in a line.
const NAMED: usize = 8;

/// The HTTP checks that may be registered by API. Those of files are free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HttpChecks {
    /// Requests that only read, without a body, and with headers of a short list.
    #[default]
    Limited,
    /// All.
    Any,
}

impl HttpChecks {
    /// Refuses a change that registers a check by API which may not be.
    ///
    /// # Errors
    ///
    /// The change registers such a check.
    pub(super) fn permit(self, change: &Change, node: &str) -> Result<(), Refusal> {
        for definition in registered_by_api(change) {
            // Others than sound ones are refused in Consul's words later.
            let reason = definition
                .probe(node)
                .ok()
                .and_then(|probe| self.reason(&probe));
            if let Some(reason) = reason {
                return Err(Refusal::Bad(format!("Invalid check: {reason}")));
            }
        }
        Ok(())
    }

    /// Why a check that is registered is not run, if it is not: an earlier agent took it.
    pub(super) fn forbids(self, check: &Check) -> Option<String> {
        match check.origin {
            Origin::Api => self.reason(&check.probe),
            Origin::File => None,
        }
    }

    fn reason(self, probe: &Probe) -> Option<String> {
        let Probe::Http {
            method,
            headers,
            body,
            ..
        } = probe
        else {
            return None;
        };
        match self {
            Self::Limited => excess(method, headers, body).map(|excess| {
                format!(
                    "an HTTP check that is registered by API {excess}: define it in a file of \
                     --local-services, or give --local-any-http-check"
                )
            }),
            Self::Any => None,
        }
    }
}

/// Returns the part of a request that it may not have.
fn excess(method: &str, headers: &BTreeMap<String, Vec<String>>, body: &str) -> Option<String> {
    let header = headers
        .keys()
        .find(|name| !HEADERS.contains(&name.to_ascii_lowercase().as_str()));
    match header {
        _ if !METHODS.contains(&method) => Some(format!(
            "must have Method GET, HEAD or OPTIONS, not {method:?}"
        )),
        _ if !body.is_empty() => Some("must have no Body".to_owned()),
        Some(name) => Some(format!("must not have Header {name:?}")),
        None => None,
    }
}

/// The checks that a change registers by API.
fn registered_by_api(change: &Change) -> Vec<&CheckDefinition> {
    match change {
        Change::Register { definition, .. } => {
            let sidecar = definition.sidecar.iter().flat_map(|it| &it.checks);
            definition.checks.iter().chain(sidecar).collect()
        }
        Change::RegisterCheck(definition) => iter::once(&**definition).collect(),
        Change::Deregister(_)
        | Change::Maintenance { .. }
        | Change::NodeMaintenance(_)
        | Change::DeregisterCheck(_)
        | Change::Define(_) => Vec::new(),
    }
}

/// Names the checks that are not run, if there are any.
pub(super) fn named(forbidden: &[String]) -> Option<String> {
    let named = forbidden.iter().take(NAMED).cloned().collect::<Vec<_>>();
    let first = named.first()?;
    let rest = forbidden.len() - named.len();
    let (names, others) = match (named.len(), rest) {
        (1, _) => (first.clone(), String::new()),
        (_, 0) => (named.join(", "), String::new()),
        _ => (named.join(", "), format!(" and {rest} others")),
    };
    Some(format!(
        "not run, and critical, as an HTTP check that is registered by API may not send its request: \
         {names}{others}; define it in a file of --local-services, or give --local-any-http-check"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::local::definition::{fields::Fields, service::ServiceDefinition};

    fn check(more: Value) -> Value {
        let mut check = json!({ "Name": "c", "HTTP": "http://127.0.0.1:1/", "Interval": "10s" });
        let Value::Object(more) = more else {
            unreachable!()
        };
        check.as_object_mut().unwrap().extend(more);
        check
    }

    fn ways(check: &Value) -> [Change; 3] {
        let register = |value| Change::Register {
            definition: Box::new(ServiceDefinition::of(value).unwrap()),
            replaces_checks: false,
        };
        let fields = Fields::of(check.clone(), "").unwrap();
        [
            register(json!({ "Name": "web", "Checks": [check] })),
            register(json!({
                "Name": "web", "Connect": { "SidecarService": { "Check": check } },
            })),
            Change::RegisterCheck(Box::new(CheckDefinition::read(fields).unwrap())),
        ]
    }

    #[test]
    fn a_check_by_api_only_reads_whatever_registers_it() {
        for (more, refused) in [
            (json!({}), None),
            (json!({ "Method": "HEAD" }), None),
            (json!({ "Method": "OPTIONS" }), None),
            (json!({ "Header": { "ACCEPT": ["text/html"] } }), None),
            (json!({ "Header": { "User-Agent": ["probe"] } }), None),
            (json!({ "Method": "POST" }), Some("not \"POST\"")),
            (json!({ "Method": "get" }), Some("not \"get\"")),
            (json!({ "Body": "x" }), Some("must have no Body")),
            (
                json!({ "Header": { "Host": ["a"] } }),
                Some("Header \"Host\""),
            ),
            (
                json!({ "Header": { "authorization": ["a"] } }),
                Some("Header \"authorization\""),
            ),
            (
                json!({ "Header": { "Cookie": [] } }),
                Some("Header \"Cookie\""),
            ),
            (
                json!({ "Header": { "X-Forwarded-For": ["127.0.0.1"] } }),
                Some("Header \"X-Forwarded-For\""),
            ),
            (
                json!({ "Header": { "Content-Length": ["0"] } }),
                Some("Header \"Content-Length\""),
            ),
        ] {
            for change in ways(&check(more.clone())) {
                let permitted = HttpChecks::Limited.permit(&change, "n1");
                match (&permitted, refused) {
                    (Ok(()), None) => {}
                    (Err(Refusal::Bad(text)), Some(word)) => {
                        assert!(
                            text.starts_with("Invalid check: an HTTP check") && text.contains(word),
                            "{text}"
                        );
                    }
                    other => panic!("{more}: {other:?}"),
                }
                assert_eq!(HttpChecks::Any.permit(&change, "n1"), Ok(()));
            }
        }
    }

    #[test]
    fn some_are_named_and_the_others_are_counted() {
        assert_eq!(named(&[]), None);
        let many: Vec<String> = (0..10).map(|number| format!("c{number}")).collect();
        let text = named(&many).unwrap();
        assert!(text.contains(": c0, c1, ") && text.contains("c7 and 2 others;"));
        assert!(named(&many[..1]).unwrap().contains(": c0;"));
    }
}
