//! A service as the renderer gets it.

use std::{collections::HashSet, net::IpAddr, sync::Arc, time::UNIX_EPOCH};

use shunt_model::{
    Overrides, Seniority, Service as ModelService, ServicePort, TrafficPolicy, unusable,
};
use shunt_runtime::HealthCheck;

use crate::{
    objects::{
        endpoint_slice::EndpointSlice,
        service::{Service, ServiceKind},
    },
    translate::{
        endpoints::{Slices, endpoints, hostnames},
        frontends::{Addresses, ports},
        problem::Problem,
        view::{Limits, NodeView},
    },
};

/// Result of the translation of a Service.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Translation {
    /// The service; `None`: there is none, as of type `ExternalName`.
    pub service: Option<ModelService>,
    /// The health check for load balancers.
    pub health_check: Option<HealthCheck>,
    /// Parts that are left out.
    pub problems: Vec<Problem>,
    /// True if it is all of the Service, since that needs more room than there can be.
    pub is_too_large: bool,
}

/// The service that follows from a Service, headless or not, from `slices`, which are all of its EndpointSlices in an
/// order that does not depend on that of their arrival, and from what is known of this node.
pub fn translate<'a>(
    service: &'a Service,
    slices: impl IntoIterator<Item = &'a EndpointSlice>,
    node: &NodeView,
) -> Translation {
    let is_headless = service.is_headless;
    let is_unreachable = service.cluster_ips.is_empty() && !is_headless;
    if service.kind == ServiceKind::ExternalName || is_unreachable {
        return Translation::default();
    }
    let slices: Vec<&EndpointSlice> = slices.into_iter().collect();
    let mut problems = Vec::new();
    let addresses = Addresses::of(service, node, &mut problems);
    if addresses.cluster.is_empty() && !is_headless {
        return Translation {
            problems,
            ..Translation::default()
        };
    }
    let forwarding = service.forwarding.clone().unwrap_or_else(|text| {
        problems.push(Problem::Forwarding(text));
        None
    });
    let masquerade = service.masquerade.clone().unwrap_or_else(|text| {
        problems.push(Problem::Masquerade(text));
        None
    });
    let selection = service.selection.clone().unwrap_or_else(|text| {
        problems.push(Problem::Selection(text));
        None
    });
    endpoint_problems(&slices, &mut problems);
    let hostnames = hostnames(&slices);
    let (ports, slices) = (ports(service, &mut problems), Slices::new(&slices));
    if let Some(problem) = too_large(&addresses, &ports, &slices, node.limits) {
        problems.push(problem);
        return Translation {
            problems,
            is_too_large: true,
            ..Translation::default()
        };
    }
    let ports: Vec<ServicePort> = ports
        .into_iter()
        .map(|(name, port)| {
            let wanted = |ip: IpAddr| is_headless || addresses.has_family_of(ip);
            let key = (name, port.protocol);
            ServicePort {
                endpoints: endpoints(&slices, key, wanted, node),
                ..port
            }
        })
        .collect();
    let traffic_policy = external_policy(service);
    let health_check = service
        .health_check_node_port
        .filter(|_| service.kind == ServiceKind::LoadBalancer)
        .filter(|_| traffic_policy == TrafficPolicy::Local)
        .map(|port| HealthCheck {
            port,
            local_endpoints: Overrides::default().local_endpoints(&service.id, &ports),
        });
    let Addresses {
        cluster,
        external,
        load_balancer,
        source_ranges,
    } = addresses;
    Translation {
        service: Some(ModelService {
            id: Arc::clone(&service.id),
            cluster_ips: cluster,
            external_ips: external,
            load_balancer_ips: load_balancer,
            load_balancer_source_ranges: source_ranges,
            traffic_policy,
            internal_traffic_policy: service.internal_policy,
            session_affinity_timeout: service.affinity.unwrap_or(0),
            selection,
            forwarding,
            masquerade,
            opaque_ports: service.opaque_ports.clone(),
            profile: None,
            hostnames,
            seniority: Some(seniority(service)),
            ports,
        }),
        health_check,
        problems,
        is_too_large: false,
    }
}

/// Counts what the service needs of the tables, at least: more of one than that has is a problem.
fn too_large<'a>(
    addresses: &Addresses,
    ports: &[(&'a str, ServicePort)],
    slices: &Slices<'a>,
    limits: Limits,
) -> Option<Problem> {
    let of_family = |ipv4| addresses.all().filter(|ip| ip.is_ipv4() == ipv4).count();
    let frontends = of_family(true).max(of_family(false)) as u64 * ports.len() as u64;
    if frontends > limits.frontends.into() {
        return Some(Problem::TooManyFrontends {
            needed: frontends,
            capacity: limits.frontends,
        });
    }
    let ports = ports.iter();
    let endpoints: u64 = ports
        .map(|(name, port)| slices.count((name, port.protocol)))
        .sum();
    // Both families have a table. An endpoint may be in two slices while it moves from one to the other.
    let most = u64::from(limits.backends) * 4;
    (endpoints > most).then_some(Problem::TooManyEndpoints {
        needed: endpoints,
        capacity: limits.backends,
    })
}

/// Returns the seniority by the cluster's times, so that all nodes agree.
fn seniority(service: &Service) -> Seniority {
    let since = service.created.duration_since(UNIX_EPOCH);
    let created = since.map_or(0, |since| since.as_secs().cast_signed());
    Seniority::new(created, &service.uid)
}

/// Returns the external traffic policy; of a Service that is not reached from outside it means nothing.
fn external_policy(service: &Service) -> TrafficPolicy {
    let from_outside = match service.kind {
        ServiceKind::NodePort | ServiceKind::LoadBalancer => true,
        ServiceKind::ClusterIp => !service.external_ips.is_empty(),
        ServiceKind::ExternalName => false,
    };
    if from_outside {
        service.external_policy
    } else {
        TrafficPolicy::Cluster
    }
}

/// Adds problems for addresses of endpoints that are none, or cannot be reached, and ports that are none; each once.
fn endpoint_problems(slices: &[&EndpointSlice], problems: &mut Vec<Problem>) {
    let mut known: HashSet<Problem> = problems.iter().cloned().collect();
    for slice in slices {
        let bad = slice
            .bad_addresses
            .iter()
            .map(|text| Problem::NotAnAddress {
                field: Problem::ENDPOINT,
                text: text.clone(),
            });
        let unusable = slice.endpoints.iter().filter_map(|endpoint| {
            Some(Problem::Unusable {
                field: Problem::ENDPOINT,
                address: endpoint.ip,
                kind: unusable(endpoint.ip)?,
            })
        });
        let ports = slice.bad_ports.iter().map(|reason| Problem::SlicePort {
            slice: slice.id.name.clone(),
            reason: reason.clone(),
        });
        let new = bad.chain(unusable).chain(ports);
        let new = new.filter(|problem| known.insert(problem.clone()));
        problems.extend(new);
    }
}
