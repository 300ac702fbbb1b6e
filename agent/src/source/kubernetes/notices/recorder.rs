//! Kubernetes Events (`events.k8s.io/v1`) of what users are to be told.
//!
//! All agents find most of it at once. The name of an Event follows from what it says, so that the cluster has one of
//! them: the first agent makes it, and the API server tells the others that it is there (409).

use std::{
    collections::HashMap,
    hash::Hasher as _,
    sync::Arc,
    time::{Duration, Instant},
};

use fnv::FnvHasher;
use k8s_openapi::{
    api::{
        core::v1::ObjectReference,
        events::v1::{Event, EventSeries},
    },
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
    jiff::Timestamp,
};
use kube::{
    Api, Client, Error,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::{sync::mpsc::Receiver, time::timeout};
use tracing::{debug, warn};

use crate::{
    runtime::{limit::Limit, meters::Told, reports::Reports},
    source::kubernetes::notices::notice::{Notice, Subject},
};

/// Who Events are from.
const CONTROLLER: &str = "shunt";

/// How long the server may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest name of a reporting instance that the API takes, in bytes; Nodes may have longer ones.
const LONGEST_INSTANCE: usize = 128;

/// The time that the API server keeps an Event, unless it is told otherwise.
const KEPT: Duration = Duration::from_hours(1);

/// The least time between two counts of one Event.
const BETWEEN: Duration = Duration::from_mins(3);

/// The answers of the API server that an object is there already, and that there is none.
const CONFLICT: u16 = 409;
const NOT_FOUND: u16 = 404;

/// Makes an Event of each notice, until there are none any more. The same again within an hour counts one up in the
/// Event that is there (`series`), if this agent has made it. Nothing is tried twice.
pub(in super::super) async fn record(
    client: Client,
    node: String,
    mut notices: Receiver<Notice>,
    reports: Arc<Reports>,
) {
    let mut recorder = Recorder::new(client, &node);
    let mut limit = Limit::new(Instant::now());
    let mut is_failing = false;
    while let Some(notice) = notices.recv().await {
        if !limit.take(Instant::now()) {
            reports.meters().told(Told::Dropped);
            debug!("an Event is dropped, as there were many lately: {notice:?}");
            continue;
        }
        let published = timeout(PATIENCE, recorder.publish(notice, Instant::now())).await;
        let trouble = match published {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("no answer within {PATIENCE:?}")),
        };
        let told = if trouble.is_none() {
            Told::Published
        } else {
            Told::Failed
        };
        reports.meters().told(told);
        match trouble {
            Some(trouble) if !is_failing => {
                warn!("Events cannot be made, so users are not told: {trouble}");
                is_failing = true;
            }
            Some(trouble) => debug!("an Event cannot be made: {trouble}"),
            None => is_failing = false,
        }
    }
}

/// An Event that the API server has.
#[derive(Debug, Clone, Copy)]
struct Known {
    since: Instant,
    /// `None`: another agent has made it, and counts.
    counted: Option<Counted>,
}

/// What the maker of an Event knows of it.
#[derive(Debug, Clone, Copy)]
struct Counted {
    /// The number of times that it was found.
    count: i32,
    /// The last time that the number was written.
    written: Option<Instant>,
}

/// Makes Events.
struct Recorder {
    client: Client,
    instance: String,
    known: HashMap<String, Known>,
}

impl Recorder {
    fn new(client: Client, node: &str) -> Self {
        let end = node.floor_char_boundary(LONGEST_INSTANCE);
        Self {
            client,
            instance: node[..end].to_owned(),
            known: HashMap::new(),
        }
    }

    /// Makes the Event of a notice, or counts it.
    async fn publish(&mut self, notice: Notice, now: Instant) -> Result<(), Error> {
        self.known
            .retain(|_, known| now.duration_since(known.since) < KEPT);
        let name = name(&notice);
        let events: Api<Event> =
            Api::namespaced(self.client.clone(), &notice.regarding.id.namespace);
        if let Some(known) = self.known.get_mut(&name) {
            let Some(counted) = &mut known.counted else {
                return Ok(());
            };
            counted.count = counted.count.saturating_add(1);
            if counted
                .written
                .is_some_and(|at| now.duration_since(at) < BETWEEN)
            {
                return Ok(());
            }
            counted.written = Some(now);
            match count(&events, &name, counted.count).await {
                // It has been deleted, or its time is over.
                Err(Error::Api(status)) if status.code == NOT_FOUND => {}
                result => return result,
            }
        }
        let event = self.event(name.clone(), notice);
        let counted = match events.create(&PostParams::default(), &event).await {
            Ok(_) => Some(Counted {
                count: 1,
                written: None,
            }),
            Err(Error::Api(status)) if status.code == CONFLICT => None,
            Err(error) => return Err(error),
        };
        let known = Known {
            since: now,
            counted,
        };
        self.known.insert(name, known);
        Ok(())
    }

    fn event(&self, name: String, notice: Notice) -> Event {
        let Notice {
            reason,
            regarding,
            related,
            note,
        } = notice;
        Event {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: Some(regarding.id.namespace.to_string()),
                ..ObjectMeta::default()
            },
            type_: Some("Warning".to_owned()),
            reason: Some(reason.name().to_owned()),
            action: Some(reason.action().to_owned()),
            note: Some(note),
            regarding: Some(reference(regarding)),
            related: related.map(reference),
            event_time: Some(MicroTime(Timestamp::now())),
            reporting_controller: Some(CONTROLLER.to_owned()),
            reporting_instance: Some(self.instance.clone()),
            ..Event::default()
        }
    }
}

/// Writes the number of times that an Event was found.
async fn count(events: &Api<Event>, name: &str, count: i32) -> Result<(), Error> {
    let series = EventSeries {
        count,
        last_observed_time: MicroTime(Timestamp::now()),
    };
    let patch = Patch::Merge(json!({ "series": series }));
    let parameters = PatchParams::default();
    events.patch(name, &parameters, &patch).await.map(drop)
}

/// Returns the name of a notice's Event: that of its Service, and a hash of all that it says.
fn name(notice: &Notice) -> String {
    let Notice {
        reason,
        regarding,
        related,
        note,
    } = notice;
    let related = related.as_ref().map_or("", |related| &*related.uid);
    let mut hash = FnvHasher::default();
    for text in [&*regarding.uid, reason.name(), related, note] {
        hash.write(text.as_bytes());
        // Ends a text, as it is in none.
        hash.write_u8(0);
    }
    format!("{}.{:016x}", regarding.id.name, hash.finish())
}

fn reference(subject: Subject) -> ObjectReference {
    let Subject { id, uid } = subject;
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Service".to_owned()),
        namespace: Some(id.namespace.to_string()),
        name: Some(id.name.to_string()),
        uid: (!uid.is_empty()).then(|| uid.into()),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests {
    use shunt_model::ServiceId;

    use super::*;

    #[test]
    fn the_name_follows_from_what_an_event_says_whoever_makes_it() {
        let web = |uid: &str| Subject {
            id: Arc::new(ServiceId::new("default", "web")),
            uid: uid.into(),
        };
        let told = |uid: &str, why: &str| name(&Notice::left_out(web(uid), why));
        let first = told("1", "no room");
        assert_eq!(first, told("1", "no room"));
        assert!(first.starts_with("web.") && first.len() == 20, "{first}");
        for other in [told("2", "no room"), told("1", "another reason")] {
            assert_ne!(first, other);
        }
    }
}
