//! Changes by an operator on one node, beside the events.

use std::{collections::BTreeSet, fmt, net::IpAddr, num::NonZeroU16, sync::Arc};

use crate::{
    endpoint::{Endpoint, EndpointState},
    service::{Service, ServicePort},
    service_id::ServiceId,
    topology::choose_again,
};

/// A change of endpoints. It holds for those that are there and those that come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Override {
    /// These endpoints get no new connection.
    Drain {
        /// Their address; an IPv4 address is never in the clothes of an IPv6 one.
        ip: IpAddr,
        /// Their port; `None`: any.
        port: Option<NonZeroU16>,
    },
    /// The endpoints on a node get no new connection.
    DrainNode {
        /// Its name.
        node: String,
    },
    /// An endpoint of a service has another weight.
    Weight {
        /// The service.
        service: ServiceId,
        /// The endpoint's address.
        ip: IpAddr,
        /// Its port; `None`: any.
        port: Option<NonZeroU16>,
        /// Its weight.
        weight: u32,
    },
}

impl Override {
    /// Returns whether both are about the same endpoints: the one replaces the other.
    pub fn has_target_of(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Weight {
                    service, ip, port, ..
                },
                Self::Weight {
                    service: other,
                    ip: other_ip,
                    port: other_port,
                    ..
                },
            ) => (service, ip, port) == (other, other_ip, other_port),
            _ => self == other,
        }
    }

    /// Returns whether the endpoint of the service is meant.
    pub fn means(&self, of: &ServiceId, endpoint: &Endpoint) -> bool {
        let is_at = |ip: &IpAddr, port: &Option<NonZeroU16>| {
            endpoint.ip == *ip && port.is_none_or(|port| port.get() == endpoint.port)
        };
        match self {
            Self::Drain { ip, port } => is_at(ip, port),
            Self::DrainNode { node } => endpoint.node.as_deref() == Some(node),
            Self::Weight {
                service, ip, port, ..
            } => service == of && is_at(ip, port),
        }
    }

    /// The weight that it gives.
    const fn weight(&self) -> u32 {
        match self {
            Self::Drain { .. } | Self::DrainNode { .. } => 0,
            Self::Weight { weight, .. } => *weight,
        }
    }
}

/// As the commands are written that make it: `drain 10.1.1.3:8080`.
impl fmt::Display for Override {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place =
            |f: &mut fmt::Formatter<'_>, ip: &IpAddr, port: &Option<NonZeroU16>| match (ip, port) {
                (_, None) => write!(f, "{ip}"),
                (IpAddr::V4(_), Some(port)) => write!(f, "{ip}:{port}"),
                (IpAddr::V6(_), Some(port)) => write!(f, "[{ip}]:{port}"),
            };
        match self {
            Self::Drain { ip, port } => {
                f.write_str("drain ")?;
                place(f, ip, port)
            }
            Self::DrainNode { node } => write!(f, "drain --node {node}"),
            Self::Weight {
                service,
                ip,
                port,
                weight,
            } => {
                write!(f, "weight {service} ")?;
                place(f, ip, port)?;
                write!(f, " {weight}")
            }
        }
    }
}

/// All changes that hold. What is drained is drained, whatever weight it was given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Overrides(Vec<Override>);

impl Overrides {
    /// These, of which no two have the same target.
    pub fn new(all: impl IntoIterator<Item = Override>) -> Self {
        Self(all.into_iter().collect())
    }

    /// Returns whether nothing is changed.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The service with the weights that follow, and without drained endpoints in the choice by topology;
    /// as it is if none of its endpoints is meant. The weights of local backends count `local_backend_weight` times.
    /// A weight that makes the sum larger than a u32 counts for less, so that a service of the events can be rendered
    /// whatever an operator has set.
    pub fn apply(&self, service: Arc<Service>, local_backend_weight: u32) -> Arc<Service> {
        if !self.concerns(&service) {
            return service;
        }
        let mut changed = (*service).clone();
        let id = Arc::clone(&changed.id);
        for port in &mut changed.ports {
            let most = self.most(&id, port, local_backend_weight);
            let mut is_drained = false;
            for endpoint in &mut port.endpoints {
                let limit = endpoint.weight.saturating_add(most);
                let weight = self.weight(&id, endpoint).min(limit);
                is_drained |= weight == 0 && endpoint.weight > 0;
                endpoint.weight = weight;
            }
            if is_drained {
                choose_again(&mut port.endpoints);
            }
        }
        Arc::new(changed)
    }

    /// Returns the name of a port of the service of which a weight counts for less than it is.
    pub(crate) fn port_over_limit<'a>(
        &self,
        service: &'a Service,
        local_backend_weight: u32,
    ) -> Option<&'a Arc<str>> {
        let id = &service.id;
        let mut ports = service.ports.iter();
        let port = ports.find(|port| {
            let most = self.most(id, port, local_backend_weight);
            let mut endpoints = port.endpoints.iter();
            endpoints.any(|endpoint| self.raise(id, endpoint) > most)
        });
        port.map(|port| &port.name)
    }

    /// Returns how much the weight of each endpoint of the port may be raised at most, so that their sum remains a u32.
    fn most(&self, service: &ServiceId, port: &ServicePort, local_backend_weight: u32) -> u32 {
        let (mut sum, mut raised) = (0_u64, 0_u64);
        for endpoint in &port.endpoints {
            let factor = if endpoint.local {
                local_backend_weight
            } else {
                1
            };
            let weight = self.weight(service, endpoint).min(endpoint.weight);
            sum = sum.saturating_add(u64::from(weight) * u64::from(factor));
            if self.raise(service, endpoint) > 0 {
                raised += u64::from(factor);
            }
        }
        let spare = u64::from(u32::MAX).saturating_sub(sum);
        let most = spare.checked_div(raised).unwrap_or(spare);
        u32::try_from(most).unwrap_or(u32::MAX)
    }

    /// Returns how much larger than its own the weight is that an endpoint is to have.
    fn raise(&self, service: &ServiceId, endpoint: &Endpoint) -> u32 {
        self.weight(service, endpoint)
            .saturating_sub(endpoint.weight)
    }

    /// The number of distinct addresses of this node's endpoints that take new connections, over all ports
    /// and families.
    pub fn local_endpoints(&self, service: &ServiceId, ports: &[ServicePort]) -> u32 {
        let endpoints = ports.iter().flat_map(|port| &port.endpoints);
        let counted = endpoints
            .filter(|endpoint| endpoint.local && endpoint.state == EndpointState::Ready)
            .filter(|endpoint| self.weight(service, endpoint) > 0)
            .map(|endpoint| endpoint.ip);
        counted.collect::<BTreeSet<IpAddr>>().len() as u32
    }

    /// Returns whether any endpoint of the service is meant.
    pub(crate) fn concerns(&self, service: &Service) -> bool {
        let mut endpoints = service.ports.iter().flat_map(|port| &port.endpoints);
        !self.0.is_empty()
            && endpoints.any(|endpoint| {
                let mut all = self.0.iter();
                all.any(|change| change.means(&service.id, endpoint))
            })
    }

    /// The weight that an endpoint has then: the least that any of them gives, or its own.
    fn weight(&self, service: &ServiceId, endpoint: &Endpoint) -> u32 {
        let meant = self.0.iter();
        let meant = meant.filter(|change| change.means(service, endpoint));
        meant.map(Override::weight).min().unwrap_or(endpoint.weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        endpoint::{Hints, Scopes},
        policy::TrafficPolicy,
        protocol::Protocol,
    };

    fn endpoint(ip: [u8; 4], node: Option<&str>) -> Endpoint {
        Endpoint {
            ip: ip.into(),
            port: 8080,
            weight: 3,
            local: false,
            state: EndpointState::Ready,
            serving: false,
            scopes: Scopes {
                cluster: true,
                local: false,
            },
            hints: Hints::default(),
            node: node.map(Into::into),
            zone: None,
        }
    }

    fn port(number: u16) -> Option<NonZeroU16> {
        NonZeroU16::new(number)
    }

    #[test]
    fn an_endpoint_is_meant_by_its_place_its_node_or_its_service_and_place() {
        let web = ServiceId::new("default", "web");
        let ip: IpAddr = [10, 1, 1, 3].into();
        let it = endpoint([10, 1, 1, 3], Some("node-2"));
        let weight = |service: &str, port| Override::Weight {
            service: ServiceId::new("default", service),
            ip,
            port,
            weight: 7,
        };
        let node = |node: &str| Override::DrainNode { node: node.into() };
        for (change, means, shown) in [
            (Override::Drain { ip, port: None }, true, "drain 10.1.1.3"),
            (
                Override::Drain {
                    ip,
                    port: port(8080),
                },
                true,
                "drain 10.1.1.3:8080",
            ),
            (
                Override::Drain { ip, port: port(80) },
                false,
                "drain 10.1.1.3:80",
            ),
            (node("node-2"), true, "drain --node node-2"),
            (node("node-1"), false, "drain --node node-1"),
            (weight("web", None), true, "weight default/web 10.1.1.3 7"),
            (
                weight("api", port(8080)),
                false,
                "weight default/api 10.1.1.3:8080 7",
            ),
        ] {
            assert_eq!(change.means(&web, &it), means, "{change}");
            assert_eq!(change.to_string(), shown);
        }
        assert!(weight("web", None).has_target_of(&Override::Weight {
            service: web,
            ip,
            port: None,
            weight: 0,
        }));
        assert!(!weight("web", None).has_target_of(&weight("web", port(1))));
        let v6 = Override::Drain {
            ip: "fd00::1".parse().unwrap(),
            port: port(80),
        };
        assert_eq!(v6.to_string(), "drain [fd00::1]:80");
    }

    #[test]
    fn endpoints_that_events_left_out_stand_in_for_drained_ones() {
        let at = |last: u8, cluster: bool, state: EndpointState| Endpoint {
            state,
            scopes: Scopes {
                cluster,
                local: false,
            },
            ..endpoint([10, 1, 1, last], None)
        };
        let ready = EndpointState::Ready;
        let service = Service {
            ports: vec![ServicePort {
                endpoints: vec![
                    at(1, true, ready),
                    at(2, true, ready),
                    at(3, false, ready),
                    at(4, false, EndpointState::NotReady),
                ],
                ..service_port()
            }],
            ..service()
        };
        let drain = |last: u8| Override::Drain {
            ip: [10, 1, 1, last].into(),
            port: None,
        };
        for (drained, expected) in [
            (&[1][..], [true, true, false, false]),
            (&[3], [true, true, false, false]),
            (&[1, 2], [true, true, true, false]),
            (&[1, 2, 3], [true, true, false, false]),
        ] {
            let overrides = Overrides::new(drained.iter().copied().map(drain));
            let found = overrides.apply(Arc::new(service.clone()), 1);
            let endpoints = found.ports[0].endpoints.iter();
            let scopes = endpoints.map(|endpoint| endpoint.scopes.cluster);
            assert_eq!(scopes.collect::<Vec<_>>(), expected, "{drained:?}");
        }
    }

    #[test]
    fn no_weight_makes_the_sum_larger_than_it_may_be() {
        let weighted = |last: u8, weight: u32, local: bool| Endpoint {
            weight,
            local,
            ..endpoint([10, 1, 1, last], None)
        };
        let service = |endpoints: &[Endpoint]| {
            let endpoints = endpoints.to_vec();
            let port = ServicePort {
                endpoints,
                ..service_port()
            };
            Service {
                ports: vec![port],
                ..service()
            }
        };
        let set = |last: u8, weight: u32| Override::Weight {
            service: ServiceId::new("default", "web"),
            ip: [10, 1, 1, last].into(),
            port: None,
            weight,
        };
        let most = u32::MAX;
        for (what, endpoints, overrides, expected, is_over) in [
            (
                "all of it",
                vec![weighted(1, 1, false), weighted(2, 1, false)],
                vec![set(1, most - 1)],
                vec![most - 1, 1],
                false,
            ),
            (
                "one more endpoint",
                vec![
                    weighted(1, 1, false),
                    weighted(2, 1, false),
                    weighted(3, 1, false),
                ],
                vec![set(1, most - 1)],
                vec![most - 2, 1, 1],
                true,
            ),
            (
                "two of them",
                vec![weighted(1, 1, false), weighted(2, 2, false)],
                vec![set(1, most), set(2, most)],
                vec![most / 2, most / 2 + 1],
                true,
            ),
            (
                "a local one counts three times",
                vec![weighted(1, 1, true), weighted(2, 1, false)],
                vec![set(1, most)],
                vec![(most - 4) / 3 + 1, 1],
                true,
            ),
            (
                "a lower weight makes room",
                vec![weighted(1, most - 1, false), weighted(2, 1, false)],
                vec![set(1, 5), set(2, 7)],
                vec![5, 7],
                false,
            ),
        ] {
            let service = service(&endpoints);
            let overrides = Overrides::new(overrides);
            let is_found = overrides.port_over_limit(&service, 3).is_some();
            assert_eq!(is_found, is_over, "{what}");
            let found = overrides.apply(Arc::new(service), 3);
            let endpoints = &found.ports[0].endpoints;
            let weights: Vec<u32> = endpoints.iter().map(|endpoint| endpoint.weight).collect();
            assert_eq!(weights, expected, "{what}");
            let shares = endpoints
                .iter()
                .map(|endpoint| u64::from(endpoint.weight) * if endpoint.local { 3 } else { 1 });
            assert!(shares.sum::<u64>() <= u64::from(most), "{what}");
        }
    }

    fn service_port() -> ServicePort {
        ServicePort {
            name: "http".into(),
            protocol: Protocol::Tcp,
            port: 80,
            node_port: None,
            endpoints: Vec::new(),
            split: None,
        }
    }

    fn service() -> Service {
        Service {
            id: Arc::new(ServiceId::new("default", "web")),
            cluster_ips: Vec::new(),
            external_ips: Vec::new(),
            load_balancer_ips: Vec::new(),
            load_balancer_source_ranges: Vec::new(),
            traffic_policy: TrafficPolicy::Cluster,
            internal_traffic_policy: TrafficPolicy::Cluster,
            session_affinity_timeout: 0,
            selection: None,
            forwarding: None,
            masquerade: None,
            opaque_ports: None,
            profile: None,
            hostnames: None,
            seniority: None,
            ports: Vec::new(),
        }
    }

    #[test]
    fn what_is_drained_is_drained_whatever_weight_it_was_given() {
        let web = ServiceId::new("default", "web");
        let ip: IpAddr = [10, 1, 1, 3].into();
        let given = Override::Weight {
            service: web.clone(),
            ip,
            port: None,
            weight: 7,
        };
        let it = endpoint([10, 1, 1, 3], None);
        let other = endpoint([10, 1, 1, 4], None);
        let overrides = Overrides::new([given.clone()]);
        assert_eq!(overrides.weight(&web, &it), 7);
        assert_eq!(overrides.weight(&web, &other), 3);
        let overrides = Overrides::new([given, Override::Drain { ip, port: None }]);
        assert_eq!(overrides.weight(&web, &it), 0);
    }
}
