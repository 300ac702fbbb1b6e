//! Objects that pass through a list and a watch, from a server in this process.

use std::{
    convert::Infallible,
    fmt::Debug,
    future::pending,
    pin::pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use hyper::{Request, Response};
use kube::{Client, client::Body};
use serde_json::Value;
use tokio::{sync::mpsc, time::timeout};
use tower::service_fn;

use super::{examples::example, mutation::Mutant};
use crate::watch::{
    client::Access,
    kind::{Kind, Selectors},
    step::Step,
    watcher::Watcher,
};

/// Longest time until all steps of a kind are there.
const PATIENCE: Duration = Duration::from_mins(2);

/// Valid objects of a kind among the others.
#[derive(Debug, Clone)]
pub(crate) struct Honest {
    /// All that are listed.
    pub(crate) listed: Vec<Value>,
    /// The form of one of them that the watch reports at its end.
    pub(crate) last: Value,
}

impl Honest {
    /// Returns one object, with another number at the end.
    pub(crate) fn one<K: Kind>(namespace: &str, name: &str) -> Self {
        let of = |number| example(K::NAME, namespace, name, number);
        Self {
            listed: vec![of(1)],
            last: of(2),
        }
    }
}

/// Answers of a server: pages of the list, and the watch. Later watches are silent.
#[derive(Debug)]
struct Answers {
    pages: [String; 2],
    watch: Mutex<Option<String>>,
}

/// Has a watcher list and watch mutants of its kind, with honest objects among them. Returns its steps, the list
/// first.
///
/// # Panics
///
/// If an honest object does not arrive, or the watcher reports that it cannot follow the kind.
pub(crate) async fn follow<K>(mutants: &[Mutant], honest: &Honest) -> Vec<Step<K::Object>>
where
    K: Kind,
    K::Object: Debug + PartialEq,
{
    let mutants = mutants.iter().filter(|mutant| mutant.kind == K::NAME);
    let others = mutants.map(|mutant| {
        let name = format!("web-{}", mutant.number);
        let object = example(K::NAME, "a", &name, mutant.number);
        let event = if mutant.is_deleted {
            "DELETED"
        } else {
            "MODIFIED"
        };
        (event, mutant.text(object))
    });
    let others: Vec<(&str, String)> = others.collect();
    let Honest { listed, last } = honest;
    let [before, behind] =
        [&others[..others.len() / 2], &others[others.len() / 2..]].map(|others| {
            others
                .iter()
                .map(|(_, text)| text.clone())
                .collect::<Vec<_>>()
        });
    let honest_texts = listed.iter().map(Value::to_string).collect();
    let last_text = last.to_string();
    let events = others.iter().map(|(event, text)| (*event, text));
    let events = events.chain([("MODIFIED", &last_text)]);
    let events =
        events.map(|(event, text)| format!("{{\"type\":\"{event}\",\"object\":{text}}}\n"));
    let answers = Answers {
        pages: [
            page(&[before, honest_texts].concat(), "next"),
            page(&behind, ""),
        ],
        watch: Mutex::new(Some(events.collect())),
    };
    let steps = steps::<K>(answers, others.len() + 1).await;
    let honest = |value: &Value| -> K::Object {
        let raw: K::Raw = serde_json::from_value(value.clone()).unwrap();
        raw.into()
    };
    let Some(Step::Listed(list)) = steps.first() else {
        panic!("{}: the list is not first: {:?}", K::NAME, steps.first());
    };
    for object in listed {
        let object = honest(object);
        assert!(list.objects.contains(&object), "{object:?} is not listed");
    }
    assert_eq!(steps.last(), Some(&Step::Applied(honest(last))));
    steps
}

fn page(texts: &[String], next: &str) -> String {
    let items = texts.join(",");
    format!(r#"{{"metadata":{{"resourceVersion":"5","continue":"{next}"}},"items":[{items}]}}"#)
}

/// Returns the steps of a watcher until it has reported so many events of its watch.
async fn steps<K: Kind>(answers: Answers, events: usize) -> Vec<Step<K::Object>> {
    let answers = Arc::new(answers);
    let server = service_fn(move |request: Request<Body>| {
        let answers = Arc::clone(&answers);
        async move {
            let query = request.uri().query().unwrap_or_default();
            let body = if query.contains("watch=true") {
                let watch = answers.watch.lock().unwrap().take();
                match watch {
                    Some(watch) => watch,
                    None => pending().await,
                }
            } else {
                let [first, second] = &answers.pages;
                let page = if query.contains("continue=next") {
                    second
                } else {
                    first
                };
                page.clone()
            };
            Ok::<_, Infallible>(Response::new(Body::from(body.into_bytes())))
        }
    });
    let access = Access::of_client(Client::new(server, "default"));
    let (sender, mut receiver) = mpsc::channel(16);
    let watcher = Watcher::<K, _>::new(access, Selectors::default(), sender, |step| step);
    let mut watching = pin!(watcher.run());
    let mut steps = Vec::new();
    // The list, the beginning of the watch, and its events.
    let mut awaited = events + 2;
    let all_there = async {
        while awaited > 0 {
            tokio::select! {
                biased;
                Some(step) = receiver.recv() => {
                    if let Step::Lost(reason) | Step::Absent(reason) = &step {
                        panic!("{}: {reason}", K::NAME);
                    }
                    awaited -= usize::from(!matches!(step, Step::Unreadable(_)));
                    steps.push(step);
                }
                () = &mut watching => panic!("{}: the watcher has ended", K::NAME),
            }
        }
    };
    let in_time = timeout(PATIENCE, all_there).await;
    assert!(
        in_time.is_ok(),
        "{}: {} steps, no more",
        K::NAME,
        steps.len()
    );
    steps
}
