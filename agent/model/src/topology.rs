//! The ready endpoints of a service port that are meant for this node (Kubernetes, topology hints).

use crate::endpoint::{Endpoint, EndpointState, Hint, Hints};

/// The hints by which the endpoints of the Cluster set are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Node,
    Zone,
    Everywhere,
}

impl Level {
    /// The level that the hints of the endpoints lead to that take new connections.
    ///
    /// An endpoint without a hint switches its kind of hints off for the whole service port, and so
    /// does a port without an endpoint for here.
    fn of(hints: &(impl Iterator<Item = Hints> + Clone)) -> Self {
        let counts = |kind: fn(Hints) -> Hint| {
            let mut kinds = hints.clone().map(kind);
            kinds.clone().all(|hint| hint != Hint::None) && kinds.any(|hint| hint == Hint::Here)
        };
        if counts(|hints| hints.node) {
            Self::Node
        } else if counts(|hints| hints.zone) {
            Self::Zone
        } else {
            Self::Everywhere
        }
    }

    fn chooses(self, hints: Hints) -> bool {
        match self {
            Self::Node => hints.node == Hint::Here,
            Self::Zone => hints.zone == Hint::Here,
            Self::Everywhere => true,
        }
    }
}

/// Puts those endpoints of a service port into the Cluster set that are meant for this node, each family
/// by itself. Endpoints that take no new connections neither count nor change.
pub fn choose_by_hints(endpoints: &mut [Endpoint]) {
    for ipv4 in [true, false] {
        let counts = |endpoint: &Endpoint| {
            let is_ready = endpoint.state == EndpointState::Ready && endpoint.weight > 0;
            is_ready && endpoint.ip.is_ipv4() == ipv4
        };
        let counted = endpoints.iter().filter(|endpoint| counts(endpoint));
        let level = Level::of(&counted.map(|endpoint| endpoint.hints));
        for endpoint in endpoints.iter_mut().filter(|endpoint| counts(endpoint)) {
            endpoint.scopes.cluster = level.chooses(endpoint.hints);
        }
    }
}

/// As [`choose_by_hints`], after endpoints were drained. Where no endpoint has a hint, the events have
/// chosen: others are used if all that they chose are drained.
pub(crate) fn choose_again(endpoints: &mut [Endpoint]) {
    let mut all = endpoints.iter();
    if all.any(|endpoint| endpoint.hints != Hints::default()) {
        choose_by_hints(endpoints);
        return;
    }
    for endpoint in &mut *endpoints {
        endpoint.hints.node = if endpoint.scopes.cluster {
            Hint::Here
        } else {
            Hint::Elsewhere
        };
    }
    choose_by_hints(endpoints);
    for endpoint in endpoints {
        endpoint.hints = Hints::default();
    }
}
