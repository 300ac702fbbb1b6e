//! From a service to its frontends.

use std::{net::IpAddr, num::NonZeroU32};

use super::{
    Clients, Frontend, FrontendKey, FrontendKind, NodeAddresses, RenderError,
    backend_sets::BackendSets,
};
use crate::api::{Service, ServicePort, TrafficPolicy};

/// The frontends of `service`, sorted by key, each key once; a frontend without a usable backend
/// has an empty set.
///
/// ClusterIP frontends follow the internal traffic policy, all others the external one. NodePorts
/// stand on the node addresses of the families that the service has addresses of. Under policy
/// Cluster that is all nodes', where another node's is for clients on this node only; under policy
/// Local this node's own. Where a NodePort coincides with an address and port of the service
/// itself, the service's own address is meant.
///
/// # Errors
///
/// The weights of a port's backends have too large a sum.
pub fn render(
    service: &Service,
    nodes: &NodeAddresses,
    local_backend_weight: NonZeroU32,
) -> Result<Vec<(FrontendKey, Frontend)>, RenderError> {
    let affinity_timeout = service.session_affinity_timeout;
    let mut frontends = Vec::new();
    for port in &service.ports {
        let ServicePort {
            name: _,
            protocol,
            port: number,
            node_port,
            endpoints: _,
        } = *port;
        let mut sets = BackendSets::new(&service.id, port, local_backend_weight.get())?;
        let mut add = |kind, policy, clients, address, port| {
            let key = FrontendKey {
                address,
                port,
                protocol,
            };
            let refusal = sets.refusal(address);
            let backends = sets.of(address, policy);
            frontends.push((
                key,
                Frontend {
                    kind,
                    policy,
                    clients,
                    refusal,
                    affinity_timeout,
                    backends,
                },
            ));
        };
        for (kind, policy, address) in own_addresses(service) {
            add(kind, policy, Clients::Everyone, address, number);
        }
        if let Some(node_port) = node_port {
            for (clients, address) in node_addresses(service, nodes) {
                add(
                    FrontendKind::NodePort,
                    service.traffic_policy,
                    clients,
                    address,
                    node_port.get(),
                );
            }
        }
    }
    frontends.sort_by_key(|(key, frontend)| (*key, frontend.kind == FrontendKind::NodePort));
    frontends.dedup_by_key(|(key, _)| *key);
    frontends.shrink_to_fit();
    Ok(frontends)
}

/// The addresses of the service itself, with the traffic policy that each obeys.
fn own_addresses(service: &Service) -> impl Iterator<Item = (FrontendKind, TrafficPolicy, IpAddr)> {
    let (internal, external) = (service.internal_traffic_policy, service.traffic_policy);
    let cluster = service
        .cluster_ips
        .iter()
        .map(move |ip| (FrontendKind::ClusterIp, internal, *ip));
    let outer = service
        .external_ips
        .iter()
        .map(move |ip| (FrontendKind::ExternalIp, external, *ip));
    let balanced = service
        .load_balancer_ips
        .iter()
        .map(move |ip| (FrontendKind::LoadBalancerIp, external, *ip));
    cluster.chain(outer).chain(balanced)
}

/// The node addresses that carry the service's NodePorts, with whose connections they take.
fn node_addresses(
    service: &Service,
    nodes: &NodeAddresses,
) -> impl Iterator<Item = (Clients, IpAddr)> {
    let policy = service.traffic_policy;
    nodes
        .all()
        .iter()
        .filter(|address| service.has_family_of(**address))
        .filter_map(
            move |address| match (policy, nodes.own().contains(address)) {
                (_, true) => Some((Clients::Everyone, *address)),
                (TrafficPolicy::Cluster, false) => Some((Clients::ThisNode, *address)),
                (TrafficPolicy::Local, false) => None,
            },
        )
}
