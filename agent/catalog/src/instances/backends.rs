//! Instances become endpoints.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use shunt_model::{Endpoint, EndpointState, Hints, Scopes};

use crate::instances::{
    address::{Family, reached},
    health::Standing,
    instance::Instance,
    place::Place,
    skip::{Skip, SkipReason},
};

/// Endpoints by address and port, each once.
pub(super) type Endpoints = BTreeMap<(IpAddr, u16), Endpoint>;

/// Returns the endpoints of these instances in these families, each with its `standing`. An instance that has
/// no place in any of them is skipped.
pub(super) fn endpoints<'a>(
    instances: impl Iterator<Item = &'a Instance>,
    standing: impl Fn(&Instance) -> Standing,
    place: &Place,
    families: &BTreeSet<Family>,
    skips: &mut Vec<Skip>,
) -> Endpoints {
    let mut found = Endpoints::new();
    for instance in instances {
        let mut reason = None;
        let mut is_reached = false;
        for &family in families {
            match reached(instance, place, family) {
                Ok(at) => {
                    is_reached = true;
                    add(
                        &mut found,
                        endpoint(instance, standing(instance), place, at),
                    );
                }
                Err(other) => worse(&mut reason, other),
            }
        }
        if let Some(reason) = reason.filter(|_| !is_reached) {
            skips.push(Skip {
                node: instance.node.clone(),
                id: instance.id.clone(),
                reason,
            });
        }
    }
    found
}

/// Keeps the more specific reason: that another family is missing is the least specific one.
fn worse(reason: &mut Option<SkipReason>, other: SkipReason) {
    if matches!(reason, None | Some(SkipReason::Family(_))) {
        *reason = Some(other);
    }
}

fn endpoint(
    instance: &Instance,
    (state, weight): Standing,
    place: &Place,
    (ip, port): (IpAddr, u16),
) -> Endpoint {
    let local = place.has(instance, ip);
    Endpoint {
        ip,
        port,
        weight,
        local,
        state,
        serving: false,
        scopes: Scopes::default_of(local),
        hints: Hints::default(),
        node: Some(Arc::from(&*instance.node)),
        zone: None,
    }
}

/// Two instances at one address and port are one endpoint: usable if one of them is, with the highest
/// weight.
fn add(endpoints: &mut Endpoints, endpoint: Endpoint) {
    let key = (endpoint.ip, endpoint.port);
    let Some(known) = endpoints.get_mut(&key) else {
        endpoints.insert(key, endpoint);
        return;
    };
    known.weight = known.weight.max(endpoint.weight);
    if endpoint.state == EndpointState::Ready {
        known.state = EndpointState::Ready;
    }
    if endpoint.local && !known.local {
        known.local = true;
        known.node = endpoint.node;
    } else if endpoint.local == known.local && endpoint.node < known.node {
        // Whichever comes first.
        known.node = endpoint.node;
    }
    known.scopes = Scopes::default_of(known.local);
}
