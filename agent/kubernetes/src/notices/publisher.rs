//! One Event for all notices with the same content.
//!
//! The name of an Event follows from its content. So another content is an Event of its own, and of several agents that
//! find the same at once the first makes the Event, and the API server answers the others that it is there (409).

use std::{
    collections::HashMap,
    hash::Hasher as _,
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

/// The longest name of a reporting instance that the API takes, in bytes; Nodes may have longer ones.
const LONGEST_INSTANCE: usize = 128;

/// The longest beginning of an Event's name: an object's name has up to 253 bytes, and so has an Event's with
/// the hash.
const LONGEST_BEGINNING: usize = 253 - 1 - 16;

/// The time that the API server keeps an Event, unless it is configured otherwise.
const KEPT: Duration = Duration::from_hours(1);

/// The least time between two counts of one Event.
const BETWEEN: Duration = Duration::from_mins(3);

/// The answers of the API server that an object is there already, and that there is none.
const CONFLICT: u16 = 409;
const NOT_FOUND: u16 = 404;

/// Content of an Event.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) reason: &'static str,
    /// The action that was tried.
    pub(crate) action: &'static str,
    pub(crate) regarding: ObjectReference,
    pub(crate) related: Option<ObjectReference>,
    pub(crate) note: String,
}

/// An Event that the API server has.
#[derive(Debug, Clone, Copy)]
struct Known {
    since: Instant,
    /// `None`: another agent has made it, and counts.
    counted: Option<Counted>,
}

/// An Event's record at its maker.
#[derive(Debug, Clone, Copy)]
struct Counted {
    /// The number of times that it was found.
    count: i32,
    /// The last time that the number was written.
    written: Option<Instant>,
}

/// Makes Events. The same again within an hour counts one up in the Event that is there (`series`), if this
/// process has made it.
pub(crate) struct Publisher {
    client: Client,
    /// The controller that they are from.
    controller: &'static str,
    instance: String,
    known: HashMap<String, Known>,
}

impl Publisher {
    /// One for Events from this instance of `controller`.
    pub(crate) fn new(client: Client, controller: &'static str, instance: &str) -> Self {
        let end = instance.floor_char_boundary(LONGEST_INSTANCE);
        Self {
            client,
            controller,
            instance: instance[..end].to_owned(),
            known: HashMap::new(),
        }
    }

    /// Makes an Event, or counts the one that there is.
    ///
    /// # Errors
    ///
    /// The server does not take it.
    pub(crate) async fn publish(&mut self, said: Said, now: Instant) -> Result<(), Error> {
        self.known
            .retain(|_, known| now.duration_since(known.since) < KEPT);
        let name = name(&said);
        let namespace = said.regarding.namespace.clone().unwrap_or_default();
        let events: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
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
        let event = self.event(name.clone(), namespace, said);
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

    fn event(&self, name: String, namespace: String, said: Said) -> Event {
        let Said {
            reason,
            action,
            regarding,
            related,
            note,
        } = said;
        Event {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: Some(namespace),
                ..ObjectMeta::default()
            },
            type_: Some("Warning".to_owned()),
            reason: Some(reason.to_owned()),
            action: Some(action.to_owned()),
            note: Some(note),
            regarding: Some(regarding),
            related,
            event_time: Some(MicroTime(Timestamp::now())),
            reporting_controller: Some(self.controller.to_owned()),
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

/// Returns the name of an Event: that of its object, and a hash of all its content.
fn name(said: &Said) -> String {
    let Said {
        reason,
        action: _,
        regarding,
        related,
        note,
    } = said;
    let uid = |object: Option<&ObjectReference>| -> String {
        let uid = object.and_then(|object| object.uid.clone());
        uid.unwrap_or_default()
    };
    let mut hash = FnvHasher::default();
    for text in [
        &*uid(Some(regarding)),
        reason,
        &*uid(related.as_ref()),
        note,
    ] {
        hash.write(text.as_bytes());
        // Ends a text, as it is in none.
        hash.write_u8(0);
    }
    let beginning = regarding.name.as_deref().unwrap_or_default();
    let beginning = &beginning[..beginning.floor_char_boundary(LONGEST_BEGINNING)];
    // A label of the DNS does not end with these.
    let beginning = beginning.trim_end_matches(['-', '.']);
    format!("{beginning}.{:016x}", hash.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(name: &str, uid: &str, note: &str) -> Said {
        Said {
            reason: "NotTranslated",
            action: "Translate",
            regarding: ObjectReference {
                name: Some(name.to_owned()),
                uid: Some(uid.to_owned()),
                ..ObjectReference::default()
            },
            related: None,
            note: note.to_owned(),
        }
    }

    #[test]
    fn the_name_follows_from_what_an_event_says_whoever_makes_it() {
        let told = |uid: &str, why: &str| name(&said("web", uid, why));
        let first = told("1", "no room");
        assert_eq!(first, told("1", "no room"));
        assert!(first.starts_with("web.") && first.len() == 20, "{first}");
        for other in [told("2", "no room"), told("1", "another reason")] {
            assert_ne!(first, other);
        }
    }

    #[test]
    fn the_name_is_one_that_the_api_takes_however_long_the_objects_is() {
        for end in ["b", "-", ".", "-."] {
            let long = format!("{}{end}{}", "a".repeat(236 - end.len()), "c".repeat(17));
            let name = name(&said(&long, "1", ""));
            let (beginning, hash) = name.rsplit_once('.').unwrap();
            assert!(name.len() <= 253 && hash.len() == 16, "{name}");
            assert!(beginning.ends_with(['a', 'b']), "{name}");
        }
    }
}
