//! The endpoints of one service port: all slices united, each address and port once.

use std::{cmp::Reverse, collections::HashMap, net::IpAddr, num::NonZeroU16, sync::Arc};

use shunt_model::{
    Endpoint, EndpointState, Hostnames, Protocol, Scopes, choose_by_hints, unusable,
};

use crate::{
    objects::endpoint_slice::{Conditions, EndpointSlice, SliceEndpoint, SlicePort},
    translate::{topology::hints_at, view::NodeView},
};

/// An endpoint of a slice with the port that it has for the service port.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    endpoint: &'a SliceEndpoint,
    port: NonZeroU16,
    /// True if it is on this node.
    local: bool,
}

impl Candidate<'_> {
    const fn identity(&self) -> (IpAddr, NonZeroU16) {
        (self.endpoint.ip, self.port)
    }

    /// Returns the rank among those with one identity, of which the greatest counts: one that is ready and stays; else
    /// one that stays; else one of this node. A pod's address that is given anew while the pod before still terminates
    /// is the new pod's.
    const fn rank(&self) -> (bool, bool, bool) {
        let Conditions {
            ready, terminating, ..
        } = self.endpoint.conditions;
        (ready && !terminating, !terminating, self.local)
    }
}

/// The slices of a service by the names and protocols of their ports, each with the port's number there.
pub(super) struct Slices<'a>(HashMap<(&'a str, Protocol), Vec<(&'a EndpointSlice, NonZeroU16)>>);

impl<'a> Slices<'a> {
    /// `slices` are all of the service, in an order that does not depend on that of their arrival.
    pub(super) fn new(slices: &[&'a EndpointSlice]) -> Self {
        let mut by_port = HashMap::<_, Vec<_>>::new();
        for slice in slices {
            for SlicePort {
                name,
                protocol,
                port,
            } in &slice.ports
            {
                let slices = by_port.entry((&**name, *protocol)).or_default();
                slices.push((*slice, *port));
            }
        }
        Self(by_port)
    }

    fn of(&self, name: &'a str, protocol: Protocol) -> &[(&'a EndpointSlice, NonZeroU16)] {
        self.0.get(&(name, protocol)).map_or(&[], Vec::as_slice)
    }

    /// Returns the number of endpoints of a service port of this name and protocol, counted in each slice.
    pub(super) fn count(&self, (name, protocol): (&'a str, Protocol)) -> u64 {
        let slices = self.of(name, protocol).iter();
        slices.map(|(slice, _)| slice.endpoints.len() as u64).sum()
    }
}

/// Returns the hostnames of the endpoints. Of two of an address, the first of the first slice counts.
pub(super) fn hostnames(slices: &[&EndpointSlice]) -> Option<Arc<Hostnames>> {
    let mut found = Hostnames::new();
    for (ip, hostname) in slices.iter().flat_map(|slice| &slice.hostnames) {
        found.entry(*ip).or_insert_with(|| hostname.clone());
    }
    (!found.is_empty()).then(|| Arc::new(found))
}

/// Returns the endpoints of the service port of this name and protocol, in the families of `wanted`, sorted by address
/// and port, each once.
pub(super) fn endpoints<'a>(
    slices: &Slices<'a>,
    (name, protocol): (&'a str, Protocol),
    wanted: impl Fn(IpAddr) -> bool,
    view: &NodeView,
) -> Vec<Endpoint> {
    let mut found: Vec<Candidate<'_>> = Vec::new();
    for (slice, port) in slices.of(name, protocol) {
        let endpoints = slice.endpoints.iter();
        let wanted = endpoints.filter(|endpoint| wanted(endpoint.ip));
        let usable = wanted.filter(|endpoint| unusable(endpoint.ip).is_none());
        found.extend(usable.map(|endpoint| Candidate {
            endpoint,
            port: *port,
            local: endpoint.node.as_deref() == Some(&*view.name),
        }));
    }
    // Stable: of equals, the first of the first slice counts.
    found.sort_by_key(|candidate| (candidate.identity(), Reverse(candidate.rank())));
    found.dedup_by_key(|candidate| candidate.identity());

    let mut endpoints: Vec<Endpoint> = found
        .iter()
        .map(|candidate| endpoint(candidate, view))
        .collect();
    choose_by_hints(&mut endpoints);
    endpoints
}

fn endpoint(candidate: &Candidate<'_>, view: &NodeView) -> Endpoint {
    let &Candidate {
        endpoint,
        port,
        local,
    } = candidate;
    let SliceEndpoint {
        ip,
        conditions,
        node,
        zone,
        hints,
    } = endpoint;
    Endpoint {
        ip: *ip,
        port: port.get(),
        weight: 1,
        local,
        state: state(*conditions),
        serving: conditions.serving,
        // Topology is about ready endpoints alone. Others take new connections only where no endpoint is
        // ready, and keep those that they have.
        scopes: Scopes::default_of(local),
        hints: hints_at(view, hints.as_deref()),
        node: node.as_ref().map(Arc::clone),
        zone: zone.as_ref().map(Arc::clone),
    }
}

/// Returns the state of an endpoint. One that is ready is nothing else, also while it terminates: the service's owner
/// has decided so (`publishNotReadyAddresses`).
const fn state(conditions: Conditions) -> EndpointState {
    match conditions {
        Conditions { ready: true, .. } => EndpointState::Ready,
        Conditions {
            terminating: true, ..
        } => EndpointState::Terminating,
        _ => EndpointState::NotReady,
    }
}
