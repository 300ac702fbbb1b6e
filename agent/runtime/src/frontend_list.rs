//! Lists of frontends in the kernel, beside what the events lead to.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use shunt_api::view::{self, ServiceCounters};
use shunt_datapath::{LiveKey, Services};
use shunt_model::ServiceId;

use crate::{
    error::InspectError,
    frontends::{InspectedFrontend, key},
    read_back::piece::Seen,
    service_counts::counters_of,
};

/// The frontends in the kernel beside those that the events lead to.
#[derive(Debug, Clone, Default)]
pub struct FrontendList {
    /// Frontends in the kernel, sorted.
    pub frontends: Vec<InspectedFrontend>,
    /// Frontends that are not there, although they should be, sorted.
    pub missing: Vec<view::FrontendKey>,
}

impl FrontendList {
    /// Returns the list of what was seen.
    pub(super) fn of(seen: impl IntoIterator<Item = (LiveKey, Seen)>) -> Self {
        let mut list = Self::default();
        for (at, seen) in seen {
            match seen {
                Seen::There(frontend) => list.frontends.push(*frontend),
                Seen::Missing => list.missing.push(key(at)),
                Seen::Untranslated | Seen::Nothing => {}
            }
        }
        list
    }

    /// Adds the counts of each frontend's service port.
    pub(super) fn counted(mut self, services: &Services) -> Result<Self, InspectError> {
        // Frontends of one service port have the same counts.
        let mut known: HashMap<(Arc<ServiceId>, Arc<str>), Option<ServiceCounters>> =
            HashMap::new();
        for frontend in &mut self.frontends {
            let Some(set) = frontend.backend_set() else {
                continue;
            };
            let name = (Arc::clone(&set.service), Arc::clone(&set.port));
            let counters = match known.entry(name) {
                Entry::Occupied(known) => known.get().clone(),
                Entry::Vacant(place) => place.insert(counters_of(services, set)?).clone(),
            };
            frontend.set_counters(counters);
        }
        Ok(self)
    }
}
