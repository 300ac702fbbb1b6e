//! The addresses and ports that a Service is reached at.

use std::{collections::HashSet, net::IpAddr, num::NonZeroU16, sync::Arc};

use ipnet::IpNet;
use shunt_model::{Protocol, ServicePort as ModelPort, unusable};

use crate::{
    objects::{
        address::{Address, Range},
        service::{Service, ServicePort},
    },
    translate::{problem::Problem, view::NodeView},
};

/// A service's addresses, each in one list only.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    pub(super) cluster: Vec<IpAddr>,
    pub(super) external: Vec<IpAddr>,
    pub(super) load_balancer: Vec<IpAddr>,
    pub(super) source_ranges: Vec<IpNet>,
}

impl Addresses {
    /// The addresses of `service` in the families in which it has a cluster IP: in another one it
    /// is no service at all.
    ///
    /// An address that stands in several lists is a cluster IP before it is a load balancer's, and
    /// that before it is an external one: so the source ranges hold for it.
    ///
    /// Anybody who may write a Service may write its external addresses. So they are not taken where they would be
    /// another Service's ClusterIP, now or later, or an address that is each link's own; nor those of nodes for a port
    /// at which the cluster itself listens there.
    pub(super) fn of(service: &Service, node: &NodeView, problems: &mut Vec<Problem>) -> Self {
        let Service {
            cluster_ips,
            external_ips,
            load_balancer_ips,
            source_ranges,
            ports,
            ..
        } = service;
        let mut found = Self {
            cluster: usable("spec.clusterIPs", cluster_ips, problems),
            ..Self::default()
        };
        let mut listed = |field, list| {
            let mut list = usable(field, list, problems);
            list.retain(|address| {
                found.has_family_of(*address)
                    && !found.has(*address)
                    && may_be_external(field, *address, ports, node, problems)
            });
            list
        };
        let load_balancer = listed("status.loadBalancer.ingress", load_balancer_ips);
        let mut external = listed("spec.externalIPs", external_ips);
        let taken: HashSet<IpAddr> = load_balancer.iter().copied().collect();
        external.retain(|address| !taken.contains(address));
        found.external = external;
        found.load_balancer = load_balancer;

        let bad = source_ranges.iter().find_map(|range| match range {
            Range::Bad(text) => Some(text),
            Range::Net(_) => None,
        });
        match bad {
            Some(_) if found.load_balancer.is_empty() => {}
            Some(text) => {
                problems.push(Problem::NotARange(text.clone()));
                found.load_balancer.clear();
            }
            None => {
                found.source_ranges = source_ranges.iter().filter_map(Range::net).collect();
                found.admit_own_balancer(node);
            }
        }
        found
    }

    /// All of its own.
    pub(super) fn all(&self) -> impl Iterator<Item = &IpAddr> {
        let Self {
            cluster,
            external,
            load_balancer,
            source_ranges: _,
        } = self;
        cluster.iter().chain(external).chain(load_balancer)
    }

    /// Returns whether the service is one in the family of `address`.
    pub(super) fn has_family_of(&self, address: IpAddr) -> bool {
        let mut addresses = self.cluster.iter();
        addresses.any(|own| own.is_ipv4() == address.is_ipv4())
    }

    fn has(&self, address: IpAddr) -> bool {
        self.cluster.contains(&address)
    }

    /// Admits packets from the balancer's address, too, if a range has this node's own address: a process of the node
    /// has that address for its source if it is bound here.
    fn admit_own_balancer(&mut self, node: &NodeView) {
        for ipv4 in [true, false] {
            let Some(own) = node.addresses.of(ipv4) else {
                continue;
            };
            if self.source_ranges.iter().any(|range| range.contains(&own)) {
                let balancer = self.load_balancer.iter();
                let balancer = balancer.filter(|address| address.is_ipv4() == ipv4);
                self.source_ranges
                    .extend(balancer.map(|ip| IpNet::from(*ip)));
            }
        }
    }
}

/// Returns whether a service may have the address in this field, which is not that of its ClusterIPs.
fn may_be_external(
    field: &'static str,
    address: IpAddr,
    ports: &[ServicePort],
    node: &NodeView,
    problems: &mut Vec<Problem>,
) -> bool {
    let has_port = |number| {
        let mut ports = ports.iter();
        ports.any(|port| port.port == number && port.protocol == Some(Protocol::Tcp))
    };
    let problem = match (address, node.service_cidr_of(address)) {
        (IpAddr::V4(v4), _) if v4.is_link_local() => Problem::Unusable {
            field,
            address,
            kind: "a link-local",
        },
        (_, Some(range)) => Problem::InServiceRange {
            field,
            address,
            range,
        },
        (_, None) => match node.daemon_at(address, has_port) {
            Some((port, daemon)) => Problem::HostPort {
                field,
                address,
                port,
                daemon,
            },
            None => return true,
        },
    };
    problems.push(problem);
    false
}

/// Returns the addresses of the list that can be reached, each once. The author of a Service decides their number.
fn usable(field: &'static str, list: &[Address], problems: &mut Vec<Problem>) -> Vec<IpAddr> {
    let mut found = Vec::with_capacity(list.len());
    let mut known = HashSet::with_capacity(list.len());
    for address in list {
        let address = match address {
            Address::Ip(address) => *address,
            Address::Bad(text) => {
                let text = text.clone();
                problems.push(Problem::NotAnAddress { field, text });
                continue;
            }
        };
        match unusable(address) {
            Some(kind) => problems.push(Problem::Unusable {
                field,
                address,
                kind,
            }),
            None if !known.insert(address) => {}
            None => found.push(address),
        }
    }
    found
}

/// The ports of `service`, sorted by the model's names and still without endpoints, each with the
/// name that it has in the slices.
///
/// Slices know a port by name and protocol. In the model a name stands once in a service, so that of a port whose name
/// another has already contains the protocol, too.
pub(super) fn ports<'a>(
    service: &'a Service,
    problems: &mut Vec<Problem>,
) -> Vec<(&'a str, ModelPort)> {
    let mut ports: Vec<(&str, ModelPort)> = Vec::with_capacity(service.ports.len());
    let (mut names, mut numbers, mut node_ports) = (HashSet::new(), HashSet::new(), HashSet::new());
    for ServicePort {
        name,
        protocol,
        port: number,
        node_port,
    } in &service.ports
    {
        let problem: fn(Box<str>) -> Problem = match *protocol {
            None => Problem::Protocol,
            Some(_) if *number == 0 => Problem::ZeroPort,
            Some(protocol) if !numbers.insert((*number, protocol)) => Problem::DuplicatePort,
            Some(protocol) => {
                let is_new = |port: &NonZeroU16| node_ports.insert((*port, protocol));
                let own = node_port.filter(is_new);
                if own != *node_port {
                    problems.push(Problem::DuplicateNodePort(name.clone()));
                }
                let model_name: Arc<str> = if names.contains(&**name) {
                    format!("{name}/{protocol}").into()
                } else {
                    (&**name).into()
                };
                names.insert(Arc::clone(&model_name));
                let port = ModelPort {
                    name: model_name,
                    protocol,
                    port: *number,
                    node_port: own,
                    endpoints: Vec::new(),
                    split: None,
                };
                ports.push((name, port));
                continue;
            }
        };
        problems.push(problem(name.clone()));
    }
    ports.sort_by(|(_, a), (_, b)| a.name.cmp(&b.name));
    ports
}
