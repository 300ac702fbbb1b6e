//! A frontend and the instances behind it become a service of the model.

use std::{
    collections::{BTreeSet, btree_map::Entry},
    sync::Arc,
};

use shunt_model::{EndpointState, Service, ServicePort, TrafficPolicy};

use crate::source::instances::{
    address::Family,
    backends::{Endpoints, endpoints},
    frontend::Frontend,
    instance::Instance,
    place::Place,
    skip::Skip,
    vip::Address,
};

/// What becomes of a frontend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Translation {
    /// The model's service.
    pub(crate) service: Service,
    /// Who is left out, sorted.
    pub(crate) skips: Vec<Skip>,
}

/// The service of a frontend at `address`, whose instances are in `tiers`, the most wanted first.
///
/// The first tier with a usable endpoint has all new connections. The others' endpoints keep those
/// that they have, so that nothing breaks when a tier that is wanted more comes back.
pub(crate) fn translate<'a>(
    frontend: &Frontend,
    address: &Address,
    tiers: impl IntoIterator<Item = &'a [Instance]>,
    place: &Place,
) -> Translation {
    let families: BTreeSet<Family> = address.ips.iter().map(|ip| Family::of(*ip)).collect();
    let mut skips = Vec::new();
    let mut found = Vec::new();
    for tier in tiers {
        let instances = tier.iter().filter(|instance| frontend.is_for(instance));
        let all = endpoints(frontend, instances, place, &families, &mut skips);
        let (near, far): (Endpoints, Endpoints) = all
            .into_iter()
            .partition(|(_, endpoint)| frontend.prefer_local && endpoint.local);
        found.extend([near, far]);
    }
    skips.sort();
    skips.dedup();
    let endpoints = joined(found).into_values().collect();
    let service = Service {
        id: Arc::clone(&frontend.id),
        cluster_ips: Vec::new(),
        external_ips: address.ips.clone(),
        load_balancer_ips: Vec::new(),
        load_balancer_source_ranges: Vec::new(),
        traffic_policy: TrafficPolicy::Cluster,
        internal_traffic_policy: TrafficPolicy::Cluster,
        session_affinity_timeout: frontend.affinity,
        selection: frontend.selection,
        forwarding: None,
        opaque_ports: None,
        profile: None,
        seniority: None,
        ports: vec![ServicePort {
            name: "".into(),
            protocol: frontend.protocol,
            port: address.port,
            node_port: None,
            endpoints,
            split: None,
        }],
    };
    Translation { service, skips }
}

/// All endpoints, of which only those of the first tier that has a usable one take new connections.
fn joined(tiers: Vec<Endpoints>) -> Endpoints {
    let mut joined = Endpoints::new();
    let mut is_served = false;
    for tier in tiers {
        let takes = |endpoint: &shunt_model::Endpoint| {
            endpoint.state == EndpointState::Ready && endpoint.weight > 0
        };
        let is_chosen = !is_served && tier.values().any(takes);
        for (key, mut endpoint) in tier {
            if !is_chosen {
                endpoint.weight = 0;
            }
            match joined.entry(key) {
                Entry::Vacant(free) => {
                    free.insert(endpoint);
                }
                Entry::Occupied(mut known) if is_chosen => {
                    known.insert(endpoint);
                }
                Entry::Occupied(_) => {}
            }
        }
        is_served |= is_chosen;
    }
    joined
}
