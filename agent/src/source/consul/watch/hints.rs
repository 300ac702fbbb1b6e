//! More services than there may be connections: two queries tell which of them to look at.
//!
//! The checks of the whole catalog say at once which services' health has changed. The list of its
//! services wakes with each registration and says no more than that there was one: then all services
//! are looked at, at a bounded rate.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    hash::{BuildHasher as _, RandomState},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use serde::Deserialize;
use tokio::{
    sync::{Notify, mpsc},
    time::sleep,
};

use crate::source::consul::{
    http::{client::Client, error::AskError},
    objects::{null, read},
    watch::{
        cursor::{Cursor, Read, Worth},
        pace::{Backoff, Bucket, Pace},
        told::{News, Reason, Told, Trouble},
    },
};

/// Where all checks are, and all services.
const CHECKS: &str = "/v1/health/state/any";
const SERVICES: &str = "/v1/catalog/services";

/// So many services are looked at in each of these times while all of them are.
const PORTION: usize = 20;
const PORTION_TIME: Duration = Duration::from_millis(10);

/// Those who wait for a hint, by the name of their service in lower case; services of one name are
/// looked at together.
#[derive(Debug, Default)]
pub(in crate::source::consul) struct Hinted {
    services: BTreeMap<String, Vec<Arc<Notify>>>,
    /// The services that have instances on each node.
    nodes: Mutex<HashMap<Box<str>, HashSet<String>>>,
}

impl Hinted {
    /// One more who waits for hints of a service.
    pub(in crate::source::consul) fn add(&mut self, service: &str) -> Arc<Notify> {
        let notify = Arc::new(Notify::new());
        let all = self.services.entry(service.to_lowercase()).or_default();
        all.push(Arc::clone(&notify));
        notify
    }

    fn hint(&self, service: &str) {
        for notify in self.services.get(service).into_iter().flatten() {
            notify.notify_one();
        }
    }

    /// The service has an instance on this node.
    pub(in crate::source::consul) fn is_on<'a>(
        &self,
        service: &str,
        nodes: impl Iterator<Item = &'a str>,
    ) {
        let service = service.to_lowercase();
        let mut known = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        for node in nodes {
            if let Some(services) = known.get_mut(node) {
                if !services.contains(&service) {
                    services.insert(service.clone());
                }
            } else {
                known.insert(node.into(), [service.clone()].into());
            }
        }
    }

    /// Has all services looked at, at a bounded rate.
    async fn sweep(&self) {
        for (number, service) in self.services.keys().enumerate() {
            if number % PORTION == PORTION - 1 {
                sleep(PORTION_TIME).await;
            }
            self.hint(service);
        }
    }

    fn hint_node(&self, node: &str) {
        let known = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        for service in known.get(node).into_iter().flatten() {
            self.hint(service);
        }
    }
}

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

/// Gives hints by the catalog's checks, for ever.
pub(in crate::source::consul) async fn by_checks(
    client: Client,
    hinted: Arc<Hinted>,
    told: mpsc::Sender<Told>,
) {
    let mut checks = Checks::default();
    let changed = |body: &[u8]| {
        let found: Option<Vec<Check>> = read(body)?;
        for concerned in checks.changed(found.unwrap_or_default()) {
            match concerned {
                Concerned::Service(name) => hinted.hint(&name.to_lowercase()),
                Concerned::Node(node) => hinted.hint_node(&node),
            }
        }
        Ok(())
    };
    follow(client, CHECKS, told, changed, None).await;
}

/// Gives hints by the catalog's services, for ever.
pub(in crate::source::consul) async fn by_services(
    client: Client,
    hinted: Arc<Hinted>,
    told: mpsc::Sender<Told>,
) {
    follow(client, SERVICES, told, |_| Ok(()), Some(&hinted)).await;
}

/// Follows what is at a path, for ever. After each answer, also one that says nothing new, `all` are
/// looked at: what no query wakes for is seen then.
async fn follow(
    client: Client,
    path: &str,
    told: mpsc::Sender<Told>,
    mut take: impl FnMut(&[u8]) -> Result<(), AskError>,
    all: Option<&Hinted>,
) {
    let pace = Pace::default();
    let (mut cursor, mut backoff, mut bucket) =
        (Cursor::default(), Backoff::default(), Bucket::new());
    let mut stale_since = None;
    loop {
        let (question, limit) = match cursor.read() {
            Read::Default => (path.to_owned(), pace.answer),
            Read::Stale => (format!("{path}?stale"), pace.answer),
            Read::Blocking(index) => {
                let wait = pace.wait.as_millis();
                let path = format!("{path}?stale&index={index}&wait={wait}ms");
                (path, pace.blocked())
            }
        };
        let answer = client.get(0, &question, limit).await;
        let taken = answer.and_then(|answer| {
            let index = answer
                .index
                .ok_or_else(|| AskError::Unreadable("it has no X-Consul-Index".to_owned()))?;
            if cursor.answered(index) == Worth::New {
                take(&answer.body)?;
            }
            Ok(())
        });
        let (news, pause) = match taken {
            Ok(()) => {
                backoff.reset();
                if let Some(hinted) = all {
                    hinted.sweep().await;
                }
                let news = stale_since.take().map(|_| News::UpToDate);
                (news, bucket.take(&pace, Instant::now()))
            }
            Err(error) => {
                cursor.failed();
                let since = *stale_since.get_or_insert_with(SystemTime::now);
                let reason = Reason::Failed(error);
                let news = News::Stale(Trouble { since, reason });
                (Some(news), backoff.pause(&pace))
            }
        };
        if let Some(news) = news {
            let news = Told { query: None, news };
            if told.send(news).await.is_err() {
                return;
            }
        }
        sleep(pause).await;
    }
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
