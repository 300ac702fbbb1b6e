//! The frontends that a question is about, by the keys that they have in the kernel's tables.

use std::{collections::BTreeSet, net::IpAddr};

use crate::{
    lookup::query::{Query, Subject},
    protocol::Protocol,
    render::{
        entry::Entry,
        frontend::{Frontend, FrontendKey, FrontendKind},
        renderer::Renderer,
        state::State,
    },
    service_id::ServiceId,
};

impl Renderer {
    /// Returns the keys of the frontends that `query` is about, and of those that have its subject as a backend. At an
    /// address with a port these are all that there can be, whether events lead to them or not. Takes as long as there
    /// are such frontends.
    pub fn keys_of(&self, query: &Query) -> BTreeSet<FrontendKey> {
        let state = &self.state;
        match &query.subject {
            Subject::Address(address) => {
                let mut keys = at_address(state, *address, query);
                keys.extend(with_backend(state, *address, query));
                keys
            }
            Subject::Service(id) => of_service(state, id, query).collect(),
        }
    }
}

/// The keys at an address.
fn at_address(state: &State, address: IpAddr, query: &Query) -> BTreeSet<FrontendKey> {
    let Some(port) = query.port else {
        let known = state.claims.at(address).map(|(key, _)| key);
        return known.filter(|key| query.is_about(key.protocol)).collect();
    };
    let protocols = [Protocol::Sctp, Protocol::Tcp, Protocol::Udp].into_iter();
    let asked = protocols.filter(|protocol| query.is_about(*protocol));
    asked
        .map(|protocol| FrontendKey {
            address,
            port: port.get(),
            protocol,
        })
        .collect()
}

/// The frontends that events lead to and that have a backend at an address. They belong to a service that has an
/// endpoint there, or to one whose split names such a service.
fn with_backend<'a>(
    state: &'a State,
    address: IpAddr,
    query: &'a Query,
) -> impl Iterator<Item = FrontendKey> + 'a {
    let members: BTreeSet<_> = state.members.of(address).collect();
    let followers = members.iter().flat_map(|id| state.followers.of(id));
    let services: BTreeSet<&ServiceId> = followers
        .chain(members.iter().copied())
        .map(|id| &**id)
        .collect();
    let held = services.into_iter().flat_map(|id| held(state, id));
    held.filter(move |(key, frontend)| {
        query.is_about(key.protocol) && has_backend(frontend, address, query)
    })
    .map(|(key, _)| key)
}

/// Returns whether packets of any kind may get to a backend at the address, and at the port if one was asked for.
fn has_backend(frontend: &Frontend, address: IpAddr, query: &Query) -> bool {
    let others = [&frontend.this_node, &frontend.with_draining];
    let others = others.into_iter().flatten().map(|other| &**other);
    let mut sets = others.chain([frontend]).map(|one| &one.backends);
    sets.any(|set| {
        let mut backends = set.backends.iter();
        backends.any(|backend| {
            backend.ip == address && query.port.is_none_or(|port| port.get() == backend.port)
        })
    })
}

/// The keys of a service's frontends, at the port that was asked for. A node port is no port of the service.
fn of_service<'a>(
    state: &'a State,
    id: &'a ServiceId,
    query: &'a Query,
) -> impl Iterator<Item = FrontendKey> + 'a {
    let asked = held(state, id).filter(|(key, frontend)| {
        let is_at = |port: u16| frontend.kind != FrontendKind::NodePort && port == key.port;
        query.is_about(key.protocol) && query.port.is_none_or(|port| is_at(port.get()))
    });
    asked.map(|(key, _)| key)
}

/// The frontends that a service has, and not another one.
fn held<'a>(
    state: &'a State,
    id: &'a ServiceId,
) -> impl Iterator<Item = (FrontendKey, &'a Frontend)> + 'a {
    let claimed = state.services.get(id).map(Entry::frontends);
    let claimed = claimed.into_iter().flatten();
    claimed.filter_map(move |(key, frontend)| {
        let (_, holder) = state.claims.of(*key).next()?;
        (**holder == *id).then_some((*key, frontend))
    })
}
