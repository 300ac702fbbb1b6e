//! The frontends in the kernel beside those that the events lead to.

use std::{
    collections::{HashMap, HashSet},
    net::SocketAddr,
    sync::Arc,
};

use shunt_api::view::{self, Difference, ProtocolNumber, ServiceCounters};
use shunt_datapath::{LiveFrontend, LiveKey};
use shunt_model::{Backend, Frontend, FrontendKey, FrontendKind, Renderer, ServiceId};

use crate::{agent::Agent, error::InspectError, service_counts::PortName};

/// A frontend in the kernel, and what the events lead to at its key.
#[derive(Debug, Clone)]
pub struct InspectedFrontend {
    live: LiveFrontend,
    wanted: Option<Frontend>,
    counters: Option<ServiceCounters>,
}

impl InspectedFrontend {
    /// Returns the address, port and protocol for clients.
    pub const fn key(&self) -> view::FrontendKey {
        key(self.live.key)
    }

    /// Returns the backends of its connections, in the order of the kernel's table.
    pub fn backends(&self) -> &[Backend] {
        &self.live.backends
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
#[derive(Debug, Clone)]
pub struct FrontendList {
    /// Frontends in the kernel, sorted.
    pub frontends: Vec<InspectedFrontend>,
    /// Frontends that are not there, although they should be, sorted.
    pub missing: Vec<view::FrontendKey>,
    /// Number of frontends that are not there because their address family is not translated.
    pub untranslated: usize,
}

impl FrontendList {
    /// Reads them back.
    pub(super) fn read(agent: &Agent) -> Result<Self, InspectError> {
        let live = agent.datapath().live()?;
        let translates = |key: &FrontendKey| agent.datapath().translates(key);
        Ok(compare(live, agent.renderer(), translates))
    }

    /// The same with what was counted of the frontends' service ports.
    pub(super) fn counted(mut self, counters: &HashMap<PortName, ServiceCounters>) -> Self {
        for frontend in &mut self.frontends {
            if let Some(wanted) = &frontend.wanted {
                let set = &wanted.backends;
                let name = (set.service.to_string(), set.port.to_string());
                frontend.counters = counters.get(&name).cloned();
            }
        }
        self
    }

    /// Returns the frontends where kernel and events disagree.
    pub(super) fn differences(&self) -> impl Iterator<Item = (view::FrontendKey, Difference)> {
        let there = self
            .frontends
            .iter()
            .filter_map(|frontend| Some((frontend.key(), frontend.difference()?)));
        there.chain(self.missing.iter().map(|key| (*key, Difference::Missing)))
    }
}

/// Compares the frontends that are there with those that are to be there.
fn compare(
    live: Vec<LiveFrontend>,
    renderer: &Renderer,
    translates: impl Fn(&FrontendKey) -> bool,
) -> FrontendList {
    let there: HashSet<FrontendKey> = live
        .iter()
        .filter_map(|frontend| frontend.key.frontend())
        .collect();
    let absent = renderer
        .frontends()
        .map(|(key, _)| key)
        .filter(|key| !there.contains(key));
    let (missing, untranslated): (Vec<_>, Vec<_>) = absent.partition(translates);
    let inspected = live.into_iter().map(|live| InspectedFrontend {
        wanted: live
            .key
            .frontend()
            .and_then(|key| renderer.frontend(key).cloned()),
        live,
        counters: None,
    });
    FrontendList {
        frontends: inspected.collect(),
        missing: missing.into_iter().map(Into::into).collect(),
        untranslated: untranslated.len(),
    }
}

const fn key(key: LiveKey) -> view::FrontendKey {
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
