//! Reads that wait for another content.

use std::{future::Future, pin::pin, time::Duration};

use futures_util::poll;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::world::{NODE, define, deregister, register};
use crate::local::{
    limits::HttpChecks,
    registrar::{LocalNode, Registrar},
    state::{register::Change, registry::Registry, status::Status},
};

/// Wait that lasts to its end.
const WAIT: Duration = Duration::from_millis(300);

/// Wait where something comes before its end.
const LONG: Duration = Duration::from_mins(10);

/// Time by which something that comes at once has come, on the slowest machine.
const SOON: Duration = Duration::from_mins(1);

/// A registrar whose changes take effect at once.
pub(super) struct Kept {
    pub(super) registrar: Registrar,
}

impl Kept {
    pub(super) fn new() -> Self {
        let node = LocalNode {
            name: NODE.to_owned(),
            address: None,
        };
        // Nothing is written here.
        let (registrar, _) = Registrar::new(node, Registry::default(), None, HttpChecks::Limited);
        Self { registrar }
    }

    pub(super) fn change(&self, change: &Change) {
        let mut next = self.registrar.look().known().clone();
        next.change(change, NODE).unwrap();
        self.registrar.install(next);
    }

    fn hash(&self, id: &str) -> String {
        let registry = self.registrar.look();
        registry.known().service(id).unwrap().content_hash()
    }

    /// The hash of the answer, or that there is none.
    async fn read_content(&self, id: &str, hash: Option<&str>) -> Option<String> {
        let read = timeout(SOON, self.registrar.service(id, hash, LONG)).await;
        let read = read.expect("an answer before the end of the wait").unwrap();
        read.map(|registered| registered.content_hash())
    }

    /// The same, which waits to the end.
    async fn wait(&self, id: &str, hash: &str) -> Option<String> {
        let read = self.registrar.service(id, Some(hash), WAIT).await.unwrap();
        read.map(|registered| registered.content_hash())
    }
}

fn web() -> Value {
    json!({ "Name": "web", "Port": 80, "Tags": ["a", "b"], "Check": { "TTL": "10s" } })
}

fn with(field: &str, value: Value) -> Change {
    let mut changed = web();
    changed[field] = value;
    register(changed)
}

async fn is_blocked<F: Future>(read: std::pin::Pin<&mut F>) -> bool {
    poll!(read).is_pending()
}

#[tokio::test]
async fn without_the_right_hash_nobody_waits() {
    let kept = Kept::new();
    kept.change(&register(web()));
    let hash = Some(kept.hash("web"));
    assert_eq!(kept.read_content("web", None).await, hash);
    assert_eq!(kept.read_content("web", Some("00")).await, hash);
    assert_eq!(kept.read_content("nope", None).await, None);
    assert_eq!(kept.read_content("nope", Some("00")).await, None);
}

#[tokio::test]
async fn the_same_hash_waits_for_all_of_the_wait() {
    let kept = Kept::new();
    kept.change(&register(web()));
    let (began, hash) = (Instant::now(), kept.hash("web"));
    assert_eq!(kept.wait("web", &hash).await, Some(hash.clone()));
    assert!(began.elapsed() >= WAIT);
}

#[tokio::test]
async fn what_does_not_change_the_content_wakes_nobody() {
    let kept = Kept::new();
    kept.change(&register(web()));
    let hash = kept.hash("web");
    let mut read = pin!(kept.read_content("web", Some(&hash)));
    assert!(is_blocked(read.as_mut()).await);
    for change in [
        register(web()),
        register(json!({ "Name": "other" })),
        define([web()]),
        Change::Maintenance {
            service: "web".to_owned(),
            reason: Some("so".to_owned()),
        },
    ] {
        kept.change(&change);
        assert!(is_blocked(read.as_mut()).await, "{change:?}");
    }
    kept.registrar.tell("service:web", Status::Passing, "well");
    assert!(is_blocked(read.as_mut()).await, "health is not in it");
    // Another change and back, before it was looked at.
    kept.change(&with("Port", json!(81)));
    kept.change(&register(web()));
    assert!(is_blocked(read.as_mut()).await, "it waits again");
    kept.change(&with("Port", json!(82)));
    assert_eq!(read.await, Some(kept.hash("web")));
}

#[tokio::test]
async fn another_content_wakes_at_once() {
    for change in [
        with("Tags", json!(["b", "a"])),
        with("Meta", json!({ "k": "v" })),
        with("Port", json!(81)),
        deregister("web"),
    ] {
        let kept = Kept::new();
        kept.change(&register(web()));
        let hash = kept.hash("web");
        let mut read = pin!(kept.read_content("web", Some(&hash)));
        assert!(is_blocked(read.as_mut()).await);
        kept.change(&change);
        let read = read.await;
        let expected = match change {
            Change::Deregister(_) => None,
            _ => Some(kept.hash("web")),
        };
        assert_eq!(read, expected);
        assert_ne!(read, Some(hash.clone()));
    }
}

#[tokio::test]
async fn who_stops_waiting_keeps_no_place() {
    let kept = Kept::new();
    kept.change(&register(web()));
    let hash = kept.hash("web");
    {
        let mut read = pin!(kept.read_content("web", Some(&hash)));
        assert!(is_blocked(read.as_mut()).await);
        assert_eq!(kept.registrar.waiting(), 1);
    }
    assert_eq!(kept.registrar.waiting(), 0);
}
