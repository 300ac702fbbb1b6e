//! From a service to its frontends.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc};

use ipnet::IpNet;

use crate::{
    forwarding::Forwarding,
    masquerade::Masquerade,
    policy::TrafficPolicy,
    render::{
        error::RenderError,
        frontend::{Clients, Frontend, FrontendKey, FrontendKind},
        nodes::NodeAddresses,
        options::Balancing,
        port_sets::PortSets,
        reach::Reach,
        split_target::{Others, PortIndex},
    },
    service::{Service, ServicePort},
};

/// The frontends of `service`, beside which there are `others`, sorted by key, each key once; a frontend without a
/// usable backend has an empty set.
///
/// ClusterIP frontends follow the internal traffic policy, all others the external one. NodePorts
/// stand on the node addresses of the families that the service has addresses of. Under policy
/// Cluster that is all nodes', where another node's is for clients on this node only; under policy
/// Local this node's own. An external address of policy Local serves clients on this node as under
/// policy Cluster. Where a NodePort coincides with an address and port of the service
/// itself, the service's own address is meant.
///
/// In mode dsr, if the service or the default requests it, is an external address that everyone uses, and of policy
/// Cluster: under policy Local no packet goes to another node. The same addresses are masqueraded towards this node's
/// backends, if the service or the default requests that, unless they are in mode dsr.
///
/// A port's frontends for which it has a split select from the endpoints that this names, the others from
/// the port's own.
///
/// # Errors
///
/// The weights of a port's backends have too large a sum.
pub fn render<'a>(
    service: &'a Service,
    others: &Others<'a>,
    nodes: &NodeAddresses,
    balancing: &Balancing,
) -> Result<Vec<(FrontendKey, Frontend)>, RenderError> {
    let forwarding = service.forwarding.unwrap_or(balancing.forwarding);
    let masquerade = service.masquerade.unwrap_or(balancing.masquerade);
    let ranges = [true, false].map(|ipv4| sources(service, ipv4));
    let index = PortIndex::default();
    let mut frontends = Vec::new();
    for port in &service.ports {
        let ServicePort {
            name: _,
            protocol,
            port: number,
            node_port,
            endpoints: _,
            split: _,
        } = *port;
        let mut sets = PortSets::new(service, port, (others, &index), balancing)?;
        let mut add = |kind, policy, clients, address, port| {
            let key = FrontendKey {
                address,
                port,
                protocol,
            };
            let refusal = sets.refusal(address, kind);
            let selection = balancing.selection(service, kind);
            let mut set = |reach| sets.of(address, kind, reach, selection);
            let mut frontend = Frontend {
                kind,
                policy,
                clients,
                forwarding: Forwarding::Snat,
                masquerade: Masquerade::Off,
                refusal,
                backends: set(Reach::of(policy)),
                this_node: None,
                with_draining: None,
                sources: Arc::default(),
            };
            if policy == TrafficPolicy::Local && kind != FrontendKind::ClusterIp {
                let cluster = set(Reach::Cluster);
                // Equal sets of a port are one.
                if !Arc::ptr_eq(&cluster, &frontend.backends) {
                    frontend.this_node = Some(Arc::new(Frontend {
                        policy: TrafficPolicy::Cluster,
                        backends: cluster,
                        ..frontend.clone()
                    }));
                }
            }
            let is_for_all = policy == TrafficPolicy::Cluster
                && clients == Clients::Everyone
                && kind != FrontendKind::ClusterIp;
            if is_for_all && forwarding == Forwarding::Dsr {
                frontend.this_node = Some(Arc::new(Frontend {
                    policy: TrafficPolicy::Local,
                    backends: set(Reach::Here),
                    ..frontend.clone()
                }));
                frontend.with_draining =
                    sets.with_draining(address, kind, selection)
                        .map(|backends| {
                            Arc::new(Frontend {
                                backends,
                                this_node: None,
                                ..frontend.clone()
                            })
                        });
                frontend.forwarding = Forwarding::Dsr;
            }
            frontend.masquerade = Masquerade::of(is_for_all && masquerade, frontend.forwarding);
            if kind == FrontendKind::LoadBalancerIp {
                let [v4, v6] = &ranges;
                frontend.sources = Arc::clone(if address.is_ipv4() { v4 } else { v6 });
            }
            frontends.push((key, frontend));
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

/// Returns the clients of the load balancer addresses of one family: the service's ranges of that family, or everyone
/// if one of them is everyone.
fn sources(service: &Service, ipv4: bool) -> Arc<[IpNet]> {
    let ranges = &service.load_balancer_source_ranges;
    let of_family = ranges.iter().filter(|range| range.addr().is_ipv4() == ipv4);
    let sorted: BTreeSet<IpNet> = of_family.map(IpNet::trunc).collect();
    if sorted.iter().any(|range| range.prefix_len() == 0) {
        return Arc::default();
    }
    sorted.into_iter().collect()
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
