//! A frontend and the instances behind it become a service of the model.

use std::{
    collections::{BTreeSet, btree_map::Entry},
    sync::Arc,
};

use shunt_model::{EndpointState, Service, ServicePort, TrafficPolicy};

use crate::instances::{
    address::Family,
    backends::{Endpoints, endpoints},
    frontend::Frontend,
    gateways::{leads_to, standing_of_gateway},
    instance::Instance,
    place::Place,
    skip::Skip,
    tier::{Datacenter, Tier},
    vip::Address,
};

/// Result of the translation of a frontend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Translation {
    /// The model's service.
    pub(crate) service: Service,
    /// Instances that are left out, sorted.
    pub(crate) skips: Vec<Skip>,
    /// Datacenter of the instances that take new connections; `None`: none does.
    pub(crate) serving: Option<Datacenter>,
}

/// A tier, and the candidates there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidates<'a> {
    pub(crate) tier: &'a Tier,
    /// The service's instances.
    pub(crate) instances: &'a [Instance],
    /// Gateways, those of this tier among them, if connections go to them in place of the instances.
    pub(crate) gateways: Option<&'a [Instance]>,
}

/// The service of a frontend at `address`, whose instances are in `tiers`, the most wanted first.
///
/// The first tier with a usable endpoint has all new connections. The others' endpoints keep those
/// that they have, so that nothing breaks when a tier that is wanted more comes back.
pub(crate) fn translate<'a>(
    frontend: &Frontend,
    address: &Address,
    tiers: impl IntoIterator<Item = Candidates<'a>>,
    place: &Place,
) -> Translation {
    let families: BTreeSet<Family> = address.ips.iter().map(|ip| Family::of(*ip)).collect();
    let mut skips = Vec::new();
    let mut found = Vec::new();
    for candidates in tiers {
        let datacenter = &candidates.tier.datacenter;
        let all = of_tier(frontend, candidates, place, &families, &mut skips);
        let (near, far): (Endpoints, Endpoints) = all
            .into_iter()
            .partition(|(_, endpoint)| frontend.prefer_local && endpoint.local);
        found.extend([(datacenter, near), (datacenter, far)]);
    }
    skips.sort();
    skips.dedup();
    let (endpoints, serving) = joined(found);
    let endpoints = endpoints.into_values().collect();
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
        masquerade: frontend.masquerade,
        opaque_ports: None,
        profile: None,
        hostnames: None,
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
    Translation {
        service,
        skips,
        serving: serving.cloned(),
    }
}

/// Returns the endpoints of a tier: the instances there, or the gateways that lead to them. Gateways take no
/// new connection while no instance behind them does.
fn of_tier(
    frontend: &Frontend,
    candidates: Candidates<'_>,
    place: &Place,
    families: &BTreeSet<Family>,
    skips: &mut Vec<Skip>,
) -> Endpoints {
    let Candidates {
        tier,
        instances,
        gateways,
    } = candidates;
    let Some(gateways) = gateways else {
        let instances = instances
            .iter()
            .filter(|instance| frontend.is_for(instance));
        let standing = |instance: &Instance| frontend.standing(instance, tier.only_passing);
        return endpoints(instances, standing, place, families, skips);
    };
    let gateways = gateways
        .iter()
        .filter(|gateway| leads_to(gateway, frontend, tier));
    let mut found = endpoints(gateways, standing_of_gateway, place, families, skips);
    if !frontend.trusts_gateways && !has_usable(frontend, tier, instances) {
        for endpoint in found.values_mut() {
            endpoint.weight = 0;
        }
    }
    found
}

/// Returns whether some of these instances of a tier take new connections, if they can be reached.
pub(crate) fn has_usable(frontend: &Frontend, tier: &Tier, instances: &[Instance]) -> bool {
    instances.iter().any(|instance| {
        let (state, _) = frontend.standing(instance, tier.only_passing);
        state == EndpointState::Ready && frontend.is_for(instance)
    })
}

/// All endpoints, of which only those of the first tier that has a usable one take new connections; and
/// where that is.
fn joined(tiers: Vec<(&Datacenter, Endpoints)>) -> (Endpoints, Option<&Datacenter>) {
    let mut joined = Endpoints::new();
    let mut serving = None;
    for (datacenter, tier) in tiers {
        let takes = |endpoint: &shunt_model::Endpoint| {
            endpoint.state == EndpointState::Ready && endpoint.weight > 0
        };
        let is_chosen = serving.is_none() && tier.values().any(takes);
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
        if is_chosen {
            serving = Some(datacenter);
        }
    }
    (joined, serving)
}
