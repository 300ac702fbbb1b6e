//! More services than there may be connections: two queries tell which of them to look at.
//!
//! The checks of the whole catalog say at once which services' health has changed. The list of its
//! services wakes with each registration and says no more than that there was one: then all services
//! are looked at, at a bounded rate.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
};

use serde::Deserialize;
use tokio::sync::mpsc;

use crate::source::{
    consul::{
        http::client::Client,
        objects::{null, read, within},
        watch::{
            hinted::Hinted,
            path::{Taken, follow},
            told::{Told, Topic},
        },
    },
    instances::tier::Datacenter,
};

/// Where all checks are, and all services.
const CHECKS: &str = "/v1/health/state/any";
const SERVICES: &str = "/v1/catalog/services";

/// A check of the catalog.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Check {
    node: Box<str>,
    #[serde(default, rename = "CheckID", deserialize_with = "null")]
    id: Box<str>,
    #[serde(default, deserialize_with = "null")]
    status: Box<str>,
    #[serde(default, rename = "ServiceID", deserialize_with = "null")]
    service_id: Box<str>,
    #[serde(default, deserialize_with = "null")]
    service_name: Box<str>,
}

/// What a check belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Concerned {
    Service(Box<str>),
    Node(Box<str>),
}

/// The checks as they last were: of each its status, and what it belongs to.
#[derive(Debug, Default)]
struct Checks {
    known: HashMap<u64, (u64, Concerned)>,
    hasher: RandomState,
}

impl Checks {
    /// What of this is not as before.
    fn changed(&mut self, checks: Vec<Check>) -> Vec<Concerned> {
        let mut new = HashMap::with_capacity(checks.len());
        let mut changed = Vec::new();
        for check in checks {
            let Check {
                node,
                id,
                status,
                service_id,
                service_name,
            } = check;
            let key = self.hasher.hash_one((&node, &id, &service_id));
            let status = self.hasher.hash_one(&status);
            let concerned = if service_name.is_empty() {
                Concerned::Node(node)
            } else {
                Concerned::Service(service_name)
            };
            if self.known.remove(&key) != Some((status, concerned.clone())) {
                changed.push(concerned.clone());
            }
            new.insert(key, (status, concerned));
        }
        // They are gone.
        changed.extend(self.known.drain().map(|(_, (_, concerned))| concerned));
        self.known = new;
        changed
    }
}

/// Gives hints by the checks of a datacenter, for ever.
pub(in crate::source::consul) async fn by_checks(
    client: Client,
    datacenter: Datacenter,
    hinted: Arc<Hinted>,
    told: mpsc::Sender<Told>,
) {
    let mut checks = Checks::default();
    let changed = |body: &[u8]| {
        let found: Option<Vec<Check>> = read(body)?;
        let changed = checks.changed(found.unwrap_or_default());
        let is_new = !changed.is_empty();
        for concerned in changed {
            match concerned {
                Concerned::Service(name) => hinted.hint(&name.to_lowercase()),
                Concerned::Node(node) => hinted.hint_node(&node),
            }
        }
        Ok(if is_new { Taken::News } else { Taken::Nothing })
    };
    let path = within(CHECKS, &datacenter);
    follow(client, &path, Topic::Hints(datacenter), told, changed, None).await;
}

/// Gives hints by the services of a datacenter, for ever. After each answer, also one that says nothing new,
/// all are looked at: what no query wakes for is seen then.
pub(in crate::source::consul) async fn by_services(
    client: Client,
    datacenter: Datacenter,
    hinted: Arc<Hinted>,
    told: mpsc::Sender<Told>,
) {
    let path = within(SERVICES, &datacenter);
    let topic = Topic::Hints(datacenter);
    follow(
        client,
        &path,
        topic,
        told,
        |_| Ok(Taken::News),
        Some(&hinted),
    )
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(node: &str, id: &str, status: &str, service: &str) -> Check {
        Check {
            node: node.into(),
            id: id.into(),
            status: status.into(),
            service_id: service.into(),
            service_name: service.into(),
        }
    }

    #[test]
    fn a_check_that_comes_goes_or_turns_is_of_a_service_or_of_a_node() {
        let mut checks = Checks::default();
        let service = |name: &str| Concerned::Service(name.into());
        let first = || {
            vec![
                check("n1", "c", "passing", "web"),
                check("n1", "s", "passing", ""),
            ]
        };
        assert_eq!(checks.changed(first()).len(), 2);
        assert_eq!(checks.changed(first()), []);
        let turned = vec![
            check("n1", "c", "critical", "web"),
            check("n1", "s", "passing", ""),
        ];
        assert_eq!(checks.changed(turned), [service("web")]);
        let gone = vec![check("n1", "c", "critical", "web")];
        assert_eq!(checks.changed(gone), [Concerned::Node("n1".into())]);
        let come = vec![
            check("n1", "c", "critical", "web"),
            check("n2", "c", "passing", "api"),
        ];
        assert_eq!(checks.changed(come), [service("api")]);
    }
}
