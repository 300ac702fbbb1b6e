//! Memory of what was written here and the server has confirmed, so that something older is not believed.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use shunt_model::ServiceId;

use crate::controllers::workloads::slice::Slice;

/// Time after a write in which a list may have been made before it.
const LISTED: Duration = Duration::from_mins(1);

/// Time for which a list that contradicts what was written is not believed: the watch that follows it decides.
const DOUBT: Duration = Duration::from_secs(5);

/// A namespace and a name.
pub(super) type Name = (Box<str>, Box<str>);

/// The namespace and the name of a slice.
pub(super) fn name_of(slice: &Slice) -> Name {
    (slice.service.namespace.clone(), slice.name.clone())
}

/// Slices that were written here, and that the server has confirmed.
#[derive(Debug, Default)]
pub(super) struct Tracker {
    written: HashMap<Name, Written>,
    /// Slices that were deleted, by their uid.
    deleted: HashMap<Box<str>, Instant>,
    /// Slices of which a list has something older than what was written.
    doubtful: HashMap<ServiceId, (Name, Instant)>,
}

#[derive(Debug)]
struct Written {
    uid: Box<str>,
    generation: i64,
    service: ServiceId,
    at: Instant,
}

impl Tracker {
    /// The server has a slice in this form now.
    pub(super) fn written(&mut self, name: Name, slice: &Slice, now: Instant) {
        let written = Written {
            uid: slice.uid.clone(),
            generation: slice.generation,
            service: slice.service.clone(),
            at: now,
        };
        self.written.insert(name, written);
    }

    /// The server has no slice of this name any more; `slice`: the one that was known until now.
    pub(super) fn deleted(&mut self, name: &Name, slice: Option<&Slice>, now: Instant) {
        self.written.remove(name);
        if let Some(slice) = slice {
            self.deleted.insert(slice.uid.clone(), now);
        }
    }

    /// Returns whether a slice was deleted here, so that a report on it is older.
    pub(super) fn is_deleted(&self, slice: &Slice) -> bool {
        self.deleted.contains_key(&slice.uid)
    }

    /// Returns whether what is known of a Service's slices is older than what was written.
    pub(super) fn doubts(&self, id: &ServiceId, now: Instant) -> bool {
        let doubt = self.doubtful.get(id);
        doubt.is_some_and(|(_, until)| now < *until)
    }

    /// All slices are listed: finds the Services of which the list has something older than what was
    /// written, and forgets what no list could contradict any more.
    pub(super) fn listed(&mut self, list: &[Slice], now: Instant) {
        let is_young = |at: Instant| now.saturating_duration_since(at) < LISTED;
        self.written.retain(|_, written| is_young(written.at));
        self.deleted.retain(|_, at| is_young(*at));
        self.doubtful.clear();
        let until = now + DOUBT;
        let listed: HashMap<Name, &Slice> = list.iter().map(|one| (name_of(one), one)).collect();
        for (name, written) in &self.written {
            let is_known = listed.get(name).is_some_and(|slice| {
                slice.uid != written.uid || slice.generation >= written.generation
            });
            if !is_known {
                let doubt = (name.clone(), until);
                self.doubtful.insert(written.service.clone(), doubt);
            }
        }
        for (name, slice) in listed {
            if self.deleted.remove(&slice.uid).is_some() {
                self.doubtful.insert(slice.service.clone(), (name, until));
            }
        }
    }

    /// The watch reports a slice.
    pub(super) fn heard(&mut self, name: &Name, slice: &Slice) {
        let written = self.written.get(name);
        let is_old = written.is_some_and(|written| {
            written.uid == slice.uid && slice.generation < written.generation
        });
        if !is_old {
            self.doubtful.retain(|_, (doubtful, _)| doubtful != name);
        }
    }

    /// The watch reports that a slice is gone; returns whether it was deleted here.
    pub(super) fn heard_of_end(&mut self, name: &Name, slice: &Slice) -> bool {
        self.doubtful.retain(|_, (doubtful, _)| doubtful != name);
        self.deleted.remove(&slice.uid).is_some()
    }
}
