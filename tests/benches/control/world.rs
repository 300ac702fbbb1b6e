//! Services of a size, and the events about them.

use std::net::{Ipv4Addr, SocketAddrV4};

use serde_json::{Value, json};
use shunt_tests::{Transport, rulesets::Service};

/// Services with so many backends each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct World {
    pub services: u32,
    /// Of each service.
    pub backends: u32,
    /// True if each service has a NodePort.
    pub node_ports: bool,
}

/// 250,000 backends.
pub(super) const LARGE: World = World {
    services: 5_000,
    backends: 50,
    node_ports: false,
};

/// 100,000 backends, as kube-proxy is compared at.
pub(super) const WIDE: World = World {
    services: 10_000,
    backends: 10,
    node_ports: false,
};

/// The node's own address, another node's, and the one that is added.
const NODES: [&str; 2] = ["192.168.16.10", "192.168.16.20"];
const NEW_NODE: &str = "192.168.16.30";

/// The port of all services, and that of their backends.
const PORT: u16 = 80;
const BACKEND_PORT: u16 = 8080;

/// The first NodePort.
const NODE_PORT: u32 = 30_000;

impl World {
    /// Returns its name.
    pub(super) fn name(self) -> String {
        let Self {
            services, backends, ..
        } = self;
        format!("{services} x {backends}")
    }

    /// Returns the number of backends in all.
    pub(super) const fn all_backends(self) -> u32 {
        self.services * self.backends
    }

    /// The Resync with all of it.
    pub(super) fn resync(self) -> String {
        let services: Vec<_> = (0..self.services)
            .map(|number| self.service(number, None))
            .collect();
        json!({
            "event": "Resync",
            "node_ips": NODES,
            "services": services,
            "frontend_ifs": [],
            "backend_ifs": [],
        })
        .to_string()
    }

    /// The change number `change`: another one of a service's backends gets another address, and
    /// that of the service's last change its old one.
    pub(super) fn change(self, change: u32) -> String {
        let service = self.service(self.changed(change), Some(change));
        json!({"event": "UpdateService", "service": service}).to_string()
    }

    /// As [`Self::change`], of this service.
    pub(super) fn change_of(self, number: u32, change: u32) -> String {
        let service = self.service(number, Some(change));
        json!({"event": "UpdateService", "service": service}).to_string()
    }

    /// One event that changes the first so many services.
    pub(super) fn change_first(self, services: u32, change: u32) -> String {
        let services: Vec<_> = (0..services)
            .map(|number| self.service(number, Some(change)))
            .collect();
        json!({"event": "UpdateNodePortServices", "node_ips": NODES, "services": services})
            .to_string()
    }

    /// The address of a backend, counted over all services, before any change.
    pub(super) const fn backend(number: u32) -> Ipv4Addr {
        Ipv4Addr::from_bits(0x0a80_0000 + number)
    }

    /// The number of the service that a change is about: they are spread over all of them, since
    /// 7,919 is a prime.
    pub(super) const fn changed(self, change: u32) -> u32 {
        change.wrapping_mul(7_919) % self.services
    }

    /// A service as the rules of kube-proxy are made from it, as it is after a change.
    pub(super) fn rules(self, number: u32, change: Option<u32>) -> Service {
        Service {
            name: name(number),
            protocol: Transport::Tcp,
            cluster_ip: cluster_ip(number),
            port: PORT,
            node_port: None,
            endpoints: self
                .addresses(number, change)
                .map(|ip| SocketAddrV4::new(ip, BACKEND_PORT))
                .collect(),
        }
    }

    /// The event with the nodes: with the new one, or without.
    pub(super) fn nodes(with_new: bool) -> String {
        let nodes = NODES.into_iter().chain(with_new.then_some(NEW_NODE));
        let nodes: Vec<_> = nodes.collect();
        json!({"event": "UpdateNodePortServices", "node_ips": nodes, "services": []}).to_string()
    }

    fn service(self, number: u32, change: Option<u32>) -> Value {
        let backends: Vec<_> = self
            .addresses(number, change)
            .map(
                |ip| json!({"ip": ip, "port": BACKEND_PORT, "local": false, "host_network": false}),
            )
            .collect();
        let mut port = json!({"protocol": "TCP", "port": PORT});
        if self.node_ports {
            port["node_port"] = (NODE_PORT + number).into();
        }
        json!({
            "id": {"namespace": "default", "name": name(number)},
            "cluster_ips": [cluster_ip(number)],
            "external_ips": [],
            "traffic_policy": "Cluster",
            "session_affinity_timeout": 0,
            "ports": {"http": port},
            "backends": {"http": backends},
        })
    }

    /// The addresses of a service's backends, after a change of one of them.
    fn addresses(self, number: u32, change: Option<u32>) -> impl Iterator<Item = Ipv4Addr> {
        let first = number * self.backends;
        let changed = change.map(|change| (change % self.backends, change));
        (0..self.backends).map(move |place| match changed {
            // 10.250.0.0 and on: no other backend's.
            Some((changed, change)) if changed == place => {
                Ipv4Addr::from_bits(0x0afa_0000 + change % 0xffff)
            }
            _ => Ipv4Addr::from_bits(0x0a80_0000 + first + place),
        })
    }
}

fn name(number: u32) -> String {
    format!("service-{number}")
}

/// The ClusterIP of a service.
pub(super) fn cluster_ip(number: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a60_0001 + number)
}
