//! Reads that wait for a number.

use std::{future::Future, pin::pin, time::Duration};

use futures_util::poll;
use serde_json::json;
use tokio::time::{Instant, timeout};

use super::{
    reads::Kept,
    world::{check, deregister, register},
};
use crate::local::state::{effects::Subject, indexes::Index, register::Change, status::Status};

/// Wait where something comes before its end.
const LONG: Duration = Duration::from_mins(10);

/// Time by which something that comes at once has come, on the slowest machine.
const SOON: Duration = Duration::from_mins(1);

impl Kept {
    fn index(&self, subject: &Subject) -> u64 {
        self.registrar.look().indexes().of(subject)
    }

    fn has_news(&self, subject: &Subject, index: u64) -> bool {
        self.registrar.look().indexes().is_news(subject, index)
    }

    /// Waits, and returns the index then.
    async fn read(&self, subject: Subject, index: u64) -> u64 {
        let newer = self.registrar.newer(subject.clone(), index, LONG);
        let newer = timeout(SOON, newer).await;
        newer
            .expect("an answer before the end of the wait")
            .unwrap();
        self.index(&subject)
    }
}

async fn is_blocked<F: Future>(read: std::pin::Pin<&mut F>) -> bool {
    poll!(read).is_pending()
}

fn web() -> Change {
    register(json!({ "Name": "Web", "Port": 80, "Check": { "TTL": "10s" } }))
}

fn name() -> Subject {
    Subject::name("WEB")
}

#[tokio::test]
async fn a_read_waits_for_what_concerns_it_and_for_nothing_else() {
    let kept = Kept::new();
    let before = kept.index(&name());
    let mut read = pin!(kept.read(name(), before));
    assert!(is_blocked(read.as_mut()).await, "it is not there");
    kept.change(&register(json!({ "Name": "other" })));
    assert!(is_blocked(read.as_mut()).await, "that is another one");
    kept.change(&web());
    let index = read.await;
    assert!(index > before);

    let mut read = pin!(kept.read(name(), index));
    assert!(is_blocked(read.as_mut()).await);
    kept.change(&web());
    kept.registrar.tell("service:Web", Status::Critical, "down");
    kept.change(&deregister("other"));
    assert!(is_blocked(read.as_mut()).await, "nothing is another");
    kept.registrar.tell("service:Web", Status::Passing, "well");
    let index = read.await;

    let mut read = pin!(kept.read(name(), index));
    assert!(is_blocked(read.as_mut()).await);
    kept.change(&Change::NodeMaintenance(Some(String::new())));
    let index = read.await;

    let mut read = pin!(kept.read(name(), index));
    assert!(is_blocked(read.as_mut()).await);
    kept.change(&deregister("Web"));
    assert!(read.await > index, "that it has gone is news");
    assert_eq!(kept.registrar.waiting(), 0);
}

#[tokio::test]
async fn each_part_counts_what_it_shows() {
    let kept = Kept::new();
    kept.change(&web());
    let parts = [Subject::Nodes, Subject::Services, Subject::All];
    let indexes = || parts.clone().map(|part| kept.index(&part));
    let [nodes, services, all] = indexes();
    kept.registrar.tell("service:Web", Status::Passing, "well");
    assert_eq!(indexes(), [nodes, services, all + 1]);
    kept.registrar
        .tell("service:Web", Status::Passing, "better");
    assert_eq!(indexes(), [nodes, services, all + 1], "an output alone");
    kept.change(&check(json!({ "Name": "disk", "TTL": "1h" })));
    assert_eq!(indexes(), [nodes, services, all + 2]);
    kept.change(&register(json!({ "Name": "db" })));
    assert_eq!(indexes(), [nodes, all + 3, all + 3]);
    let registry = kept.registrar.look();
    let expected = Index {
        created: all,
        modified: all + 2,
    };
    assert_eq!(registry.indexes().of_name("web"), expected);
}

#[tokio::test]
async fn an_index_from_before_a_restart_is_answered_once() {
    let kept = Kept::new();
    kept.change(&web());
    let old = 1_000_000;
    assert!(kept.has_news(&name(), old), "there is no such change yet");
    let began = Instant::now();
    let index = kept.read(name(), old).await;
    assert!(began.elapsed() < LONG && index < old);
    let mut again = pin!(kept.read(name(), index));
    assert!(is_blocked(again.as_mut()).await, "and then it waits");
}
