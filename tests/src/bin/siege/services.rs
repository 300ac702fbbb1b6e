//! The services of the siege, as Shunt's events and kube-proxy's rules know them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};

use serde_json::{Value, json};
use shunt_tests::{Transport, addresses, rulesets};

use crate::field::Family;

/// The port of the backends' servers.
pub(crate) const SERVED: u16 = 8080;

/// The port at which backends take datagrams and never read them.
pub(crate) const SINK: u16 = 9;

/// The port of the ClusterIPs.
const PORT: u16 = 80;

/// The pods behind the services: two of this node, and one of the other.
pub(crate) const BACKENDS: [(&str, IpAddr); 3] = [
    ("pod-a", addresses::POD_A),
    ("pod-b", addresses::POD_B),
    ("pod-d", addresses::POD_D),
];

/// A service with a ClusterIP and a NodePort.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Service {
    name: &'static str,
    transport: Transport,
    host: u8,
    node_port: u16,
    served: u16,
    /// True for each of [`BACKENDS`] that it has.
    backends: [bool; BACKENDS.len()],
}

impl Service {
    /// The service of honest TCP clients.
    pub(crate) const WEB: Self = Self::new("web", Transport::Tcp, 10, 30_080, SERVED);
    /// The service of honest UDP clients.
    pub(crate) const DNS: Self = Self::new("dns", Transport::Udp, 11, 30_053, SERVED);
    /// UDP that gets no answer.
    pub(crate) const UNANSWERED: Self = Self::new("unanswered", Transport::Udp, 12, 30_009, SINK);
    /// TCP without a listener.
    pub(crate) const CLOSED: Self = Self::new("closed", Transport::Tcp, 13, 30_010, SINK);

    /// All of them.
    pub(crate) const ALL: [Self; 4] = [Self::WEB, Self::DNS, Self::UNANSWERED, Self::CLOSED];

    const fn new(
        name: &'static str,
        transport: Transport,
        host: u8,
        node_port: u16,
        served: u16,
    ) -> Self {
        Self {
            name,
            transport,
            host,
            node_port,
            served,
            backends: [true; BACKENDS.len()],
        }
    }

    /// Its name.
    pub(crate) const fn name(&self) -> &'static str {
        self.name
    }

    /// The same with these of [`BACKENDS`].
    #[must_use]
    pub(crate) const fn with(self, backends: [bool; BACKENDS.len()]) -> Self {
        Self { backends, ..self }
    }

    /// Its ClusterIP.
    pub(crate) fn cluster_ip(&self, family: Family) -> SocketAddr {
        let address = Ipv4Addr::new(10, 96, 0, self.host).into();
        SocketAddr::new(family.of(address), PORT)
    }

    /// Its NodePort at this node.
    pub(crate) fn node_port(&self, family: Family) -> SocketAddr {
        SocketAddr::new(family.of(addresses::NODE), self.node_port)
    }

    /// The addresses of its backends' servers.
    fn endpoints(&self) -> impl Iterator<Item = (&'static str, IpAddr)> {
        BACKENDS
            .into_iter()
            .zip(self.backends)
            .filter_map(|(backend, there)| there.then_some(backend))
    }

    /// As Shunt's events hold it.
    pub(crate) fn json(&self, family: Family) -> Value {
        let backends: Vec<_> = self
            .endpoints()
            .map(|(pod, address)| {
                json!({ "ip": family.of(address), "port": self.served, "local": pod != "pod-d" })
            })
            .collect();
        json!({
            "id": { "namespace": "siege", "name": self.name },
            "cluster_ips": [self.cluster_ip(family).ip()],
            "ports": {
                "main": {
                    "protocol": self.transport.to_string(),
                    "port": PORT,
                    "node_port": self.node_port,
                },
            },
            "backends": { "main": backends },
        })
    }

    /// As kube-proxy's rules have it; they are of IPv4.
    pub(crate) fn rules(&self) -> rulesets::Service {
        let endpoints = self.endpoints().filter_map(|(_, address)| match address {
            IpAddr::V4(address) => Some(SocketAddrV4::new(address, self.served)),
            IpAddr::V6(_) => None,
        });
        rulesets::Service {
            name: self.name.to_owned(),
            protocol: self.transport,
            cluster_ip: Ipv4Addr::new(10, 96, 0, self.host),
            port: PORT,
            node_port: Some(self.node_port),
            endpoints: endpoints.collect(),
        }
    }
}

/// Returns kube-proxy's view of the node.
pub(crate) fn node() -> rulesets::Node {
    let IpAddr::V4(address) = addresses::NODE else {
        unreachable!("the nodes have IPv4 addresses")
    };
    rulesets::Node {
        address,
        pod_cidr: "10.1.0.0/16".to_owned(),
        service_cidr: "10.96.0.0/12".to_owned(),
    }
}
