//! The services of a subject, and Shunt's events about them.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddrV4},
    ops::Range,
};

use serde_json::{Value, json};
use shunt_tests::{
    Transport, addresses,
    rulesets::{Node, Service},
};

/// Number of backends of each service.
pub(super) const BACKENDS: u8 = 10;

/// The port of the ClusterIPs.
const PORT: u16 = 80;

/// The port of the servers.
pub(crate) const SERVED: u16 = 8080;

/// The last octets of the addresses that a pod of backends has.
pub(super) const HOSTS: Range<u8> = 10..10 + BACKENDS;

/// The place of a measured service's backends, all of which are one pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// On the node of the client pod.
    Local,
    /// On the second node.
    Remote,
}

impl Place {
    pub(super) const ALL: [Self; 2] = [Self::Local, Self::Remote];

    /// The pod's name.
    pub(crate) const fn pod(self) -> &'static str {
        match self {
            Self::Local => "pod-a",
            Self::Remote => "pod-d",
        }
    }

    /// The address of one of the ten backends.
    pub(crate) const fn address(self, host: u8) -> Ipv4Addr {
        match self {
            Self::Local => Ipv4Addr::new(10, 1, 1, host),
            Self::Remote => Ipv4Addr::new(10, 1, 2, host),
        }
    }

    /// Its service's ClusterIP.
    pub(crate) const fn cluster_ip(self) -> SocketAddrV4 {
        let host = match self {
            Self::Local => 10,
            Self::Remote => 11,
        };
        SocketAddrV4::new(Ipv4Addr::new(10, 96, 0, host), PORT)
    }

    /// Its service's NodePort.
    pub(super) const fn node_port(self) -> u16 {
        match self {
            Self::Local => 30_080,
            Self::Remote => 30_081,
        }
    }

    /// Its service, for one protocol.
    fn service(self, protocol: Transport) -> Service {
        let name = match self {
            Self::Local => "local",
            Self::Remote => "remote",
        };
        Service {
            name: name.to_owned(),
            protocol,
            cluster_ip: *self.cluster_ip().ip(),
            port: PORT,
            node_port: Some(self.node_port()),
            endpoints: HOSTS
                .map(|host| SocketAddrV4::new(self.address(host), SERVED))
                .collect(),
        }
    }
}

/// Returns kube-proxy's view of the node.
pub(crate) fn node() -> Node {
    let IpAddr::V4(address) = addresses::NODE else {
        unreachable!("the nodes have IPv4 addresses")
    };
    Node {
        address,
        pod_cidr: "10.1.0.0/16".to_owned(),
        service_cidr: "10.96.0.0/12".to_owned(),
    }
}

/// The measured services amid `others`, as one may find them where order matters.
pub(crate) fn services(others: usize) -> Vec<Service> {
    let mut services: Vec<_> = (0..others).map(other).collect();
    let measured = Place::ALL
        .into_iter()
        .flat_map(|place| [Transport::Tcp, Transport::Udp].map(|protocol| place.service(protocol)));
    services.splice(others / 2..others / 2, measured);
    services
}

/// A service without clients, of backends that are nowhere.
fn other(number: usize) -> Service {
    let address = |first: [u8; 2], number: usize| -> Ipv4Addr {
        // Less than 2^22 of them.
        let offset = u32::try_from(number).unwrap_or(0);
        (u32::from(Ipv4Addr::new(first[0], first[1], 0, 0)) + offset).into()
    };
    let first = number * usize::from(BACKENDS);
    Service {
        name: format!("other-{number}"),
        protocol: Transport::Tcp,
        cluster_ip: address([10, 97], number),
        port: PORT,
        node_port: None,
        endpoints: (first..first + usize::from(BACKENDS))
            .map(|backend| SocketAddrV4::new(address([10, 128], backend), SERVED))
            .collect(),
    }
}

/// Shunt's first event: this node, and no services yet.
pub(super) fn resync() -> String {
    json!({
        "event": "Resync",
        "node_ips": [addresses::NODE, addresses::NODE2],
        "services": [],
        "frontend_ifs": ["eth0", "eth1", "pod-a", "pod-b", "pod-c"],
        "backend_ifs": [],
    })
    .to_string()
}

/// The event that adds a service to Shunt.
pub(super) fn add(service: &Service) -> String {
    let Service {
        name,
        protocol,
        cluster_ip,
        port,
        node_port,
        endpoints,
    } = service;
    let backend = |endpoint: &SocketAddrV4| {
        json!({
            "ip": endpoint.ip(),
            "port": endpoint.port(),
            "local": endpoint.ip().octets()[..3] == [10, 1, 1],
            "host_network": false,
        })
    };
    let mut main = json!({ "protocol": protocol.to_string(), "port": port });
    if let Some(node_port) = node_port {
        main["node_port"] = json!(node_port);
    }
    json!({
        "event": "AddService",
        "service": {
            "id": { "namespace": protocol.to_string().to_lowercase(), "name": name },
            "cluster_ips": [cluster_ip],
            "traffic_policy": "Cluster",
            "ports": { "main": main },
            "backends": { "main": endpoints.iter().map(backend).collect::<Vec<Value>>() },
        },
    })
    .to_string()
}
