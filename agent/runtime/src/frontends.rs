//! The frontends in the kernel beside those that the events lead to.

use std::{
    collections::{HashMap, hash_map::Entry},
    net::SocketAddr,
    sync::Arc,
};

use shunt_api::view::{self, Difference, FrontendFilter, ProtocolNumber, ServiceCounters};
use shunt_datapath::{LiveFrontend, LiveKey, Services};
use shunt_model::{Backend, Frontend, FrontendKind, ServiceId};

use crate::{error::InspectError, read_back::piece::Seen, service_counts::counters_of};

/// A frontend in the kernel, and what the events lead to at its key.
#[derive(Debug, Clone)]
pub struct InspectedFrontend {
    live: LiveFrontend,
    wanted: Option<Frontend>,
    counters: Option<ServiceCounters>,
}

impl InspectedFrontend {
    /// Creates the frontend in the kernel, beside what the events lead to.
    pub(super) const fn new(live: LiveFrontend, wanted: Option<Frontend>) -> Self {
        Self {
            live,
            wanted,
            counters: None,
        }
    }

    /// Returns the address, port and protocol for clients.
    pub const fn key(&self) -> view::FrontendKey {
        key(self.live.key)
    }

    /// Returns the backends of its connections, in the order of the kernel's table.
    pub fn backends(&self) -> &[Backend] {
        &self.live.backends
    }

    /// Returns whether the filter takes it.
    pub fn is_taken(&self, filter: &FrontendFilter) -> bool {
        let of = self.of();
        filter.matches(
            self.key().address,
            of.map(|(service, _)| (&*service.namespace, &*service.name)),
            of.map(|(_, kind)| kind.name()),
            self.live
                .backends
                .iter()
                .zip(&*self.live.shares)
                .map(|(backend, share)| (backend.ip, *share)),
            || self.difference().is_some(),
        )
    }

    /// Returns its service and its kind, by the events.
    pub fn of(&self) -> Option<(&Arc<ServiceId>, FrontendKind)> {
        let wanted = self.wanted.as_ref()?;
        Some((&wanted.backends.service, wanted.kind))
    }

    /// Of which service and which of its ports it is, by the events.
    pub fn service_port(&self) -> Option<(&Arc<ServiceId>, &Arc<str>)> {
        let set = &self.wanted.as_ref()?.backends;
        Some((&set.service, &set.port))
    }

    /// Each backend, with how many connections it was chosen for through any frontend of the service port.
    pub fn chosen(&self) -> impl Iterator<Item = (SocketAddr, u64)> {
        let connections = self.live.connections.iter().copied();
        let backends = self.live.backends.iter().zip(connections);
        backends.map(|(backend, count)| (SocketAddr::new(backend.ip, backend.port), count))
    }

    /// Returns its difference from the events, if there is one.
    pub fn difference(&self) -> Option<Difference> {
        match &self.wanted {
            None => Some(Difference::Unknown),
            Some(wanted) if !self.live.is(wanted) => Some(Difference::Changed),
            Some(_) => None,
        }
    }

    /// As it is shown.
    pub fn view(&self) -> view::Frontend {
        let Self {
            live,
            wanted,
            counters,
        } = self;
        let wanted = wanted.as_ref();
        view::Frontend {
            key: self.key(),
            kind: wanted.map(|wanted| wanted.kind.name().to_owned()),
            service: wanted.map(|wanted| wanted.backends.service.to_string()),
            service_port: wanted.map(|wanted| wanted.backends.port.to_string()),
            policy: wanted.map(|wanted| wanted.policy),
            selection: wanted.map(|wanted| wanted.backends.selection()),
            forwarding: wanted.map(|wanted| wanted.forwarding),
            affinity_timeout: live.affinity_timeout,
            backends: backends(live),
            split: wanted
                .and_then(|wanted| wanted.backends.split.as_ref())
                .map(|split| view::Split {
                    refused: live.refused,
                    ..split.into()
                }),
            difference: self.difference(),
            counters: counters.clone(),
            this_node_only: live.is_for_this_node(),
        }
    }
}

/// Its backends as they are shown.
fn backends(live: &LiveFrontend) -> Vec<view::Backend> {
    let mut backends = view::with_shares(&live.backends, &live.shares);
    for (backend, connections) in backends.iter_mut().zip(live.connections.iter()) {
        backend.new_connections = *connections;
    }
    backends
}

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
            let Some(wanted) = &frontend.wanted else {
                continue;
            };
            let set = &wanted.backends;
            let name = (Arc::clone(&set.service), Arc::clone(&set.port));
            let counters = match known.entry(name) {
                Entry::Occupied(known) => known.get().clone(),
                Entry::Vacant(place) => place.insert(counters_of(services, set)?).clone(),
            };
            frontend.counters = counters;
        }
        Ok(self)
    }
}

/// Returns how kernel and events differ at a key, if they do.
pub(super) fn difference(seen: &Seen) -> Option<Difference> {
    match seen {
        Seen::There(frontend) => frontend.difference(),
        Seen::Missing => Some(Difference::Missing),
        Seen::Untranslated | Seen::Nothing => None,
    }
}

pub(super) const fn key(key: LiveKey) -> view::FrontendKey {
    let LiveKey {
        address,
        port,
        protocol,
    } = key;
    view::FrontendKey {
        address,
        port,
        protocol: ProtocolNumber(protocol),
    }
}
