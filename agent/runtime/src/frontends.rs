//! A frontend in the kernel beside what the events lead to.

use std::{net::SocketAddr, sync::Arc};

use shunt_api::view::{self, Difference, FrontendFilter, ProtocolNumber, ServiceCounters};
use shunt_datapath::{LiveFrontend, LiveKey};
use shunt_model::{Backend, BackendSet, Frontend, FrontendKind, ServiceId};

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

    /// Returns its backends by the events.
    pub(super) fn backend_set(&self) -> Option<&BackendSet> {
        let wanted = self.wanted.as_ref()?;
        Some(&wanted.backends)
    }

    /// Sets the counts of its service port.
    pub(super) fn set_counters(&mut self, counters: Option<ServiceCounters>) {
        self.counters = counters;
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
            masquerade: wanted.map(|wanted| wanted.masquerade),
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
            source_ranges: wanted
                .iter()
                .flat_map(|wanted| wanted.sources.iter().map(ToString::to_string))
                .collect(),
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

/// Returns the key as it is shown.
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
