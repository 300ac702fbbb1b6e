//! Services for tests, and the events that bring them.

use std::net::{IpAddr, SocketAddr};

use serde_json::{Value, json};
use shunt_tests::{Target, Transport, addresses};

/// The address of the services' ClusterIP.
const CLUSTER_IP: &str = "10.96.0.10";

/// The address of the services' ExternalIP.
const EXTERNAL_IP: &str = "203.0.113.7";

/// The port at both.
const PORT: u16 = 80;

/// The port at the nodes.
const NODE_PORT: u16 = 30080;

/// A service `default/web` with one port and all three kinds of frontend.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    transport: Transport,
    dual_stack: bool,
    backends: Vec<(SocketAddr, u32)>,
}

impl Service {
    /// No backends yet.
    pub(crate) const fn new(transport: Transport) -> Self {
        Self {
            transport,
            dual_stack: false,
            backends: Vec::new(),
        }
    }

    /// With addresses of both families, the IPv6 ones by [`addresses::v6`].
    pub(crate) const fn dual_stack(mut self) -> Self {
        self.dual_stack = true;
        self
    }

    /// With one more backend, of weight 1.
    pub(crate) fn backend(self, address: SocketAddr) -> Self {
        self.weighted(address, 1)
    }

    /// With one more backend.
    pub(crate) fn weighted(mut self, address: SocketAddr, weight: u32) -> Self {
        self.backends.push((address, weight));
        self
    }

    /// An event of this name that holds the service.
    pub(crate) fn event(&self, name: &str) -> String {
        json!({ "event": name, "service": self.json() }).to_string()
    }

    /// The event that deletes it.
    pub(crate) fn delete() -> String {
        json!({ "event": "DeleteService", "id": { "namespace": "default", "name": "web" } })
            .to_string()
    }

    /// The service as events hold it.
    pub(crate) fn json(&self) -> Value {
        let backend = |(address, weight): &(SocketAddr, u32)| {
            let ip = address.ip();
            let local = ip != addresses::POD_D && ip != addresses::v6(addresses::POD_D);
            json!({
                "ip": ip, "port": address.port(), "local": local, "host_network": false,
                "weight": weight,
            })
        };
        let backends: Vec<_> = self.backends.iter().map(backend).collect();
        json!({
            "id": { "namespace": "default", "name": "web" },
            "cluster_ips": self.addresses(CLUSTER_IP),
            "external_ips": self.addresses(EXTERNAL_IP),
            "traffic_policy": "Cluster",
            "session_affinity_timeout": 0,
            "ports": {
                "main": {
                    "protocol": self.transport.to_string(),
                    "port": PORT,
                    "node_port": NODE_PORT,
                },
            },
            "backends": { "main": backends },
        })
    }

    /// An IPv4 address and, if it has one, the IPv6 address beside it.
    fn addresses(&self, v4: &str) -> Vec<IpAddr> {
        let v4 = v4.parse().unwrap();
        if self.dual_stack {
            vec![v4, addresses::v6(v4)]
        } else {
            vec![v4]
        }
    }

    /// A client of its ClusterIP.
    pub(crate) fn cluster_ip(&self) -> Target {
        self.target(CLUSTER_IP.parse().unwrap(), PORT)
    }

    /// A client of its IPv6 ClusterIP.
    pub(crate) fn cluster_ip_v6(&self) -> Target {
        self.target(addresses::v6(CLUSTER_IP.parse().unwrap()), PORT)
    }

    /// A client of its ExternalIP.
    pub(crate) fn external_ip(&self) -> Target {
        self.target(EXTERNAL_IP.parse().unwrap(), PORT)
    }

    /// A client of its IPv6 ExternalIP.
    pub(crate) fn external_ip_v6(&self) -> Target {
        self.target(addresses::v6(EXTERNAL_IP.parse().unwrap()), PORT)
    }

    /// A client of its NodePort at this node.
    pub(crate) fn node_port(&self) -> Target {
        self.node_port_at(addresses::NODE)
    }

    /// A client of its NodePort at some node.
    pub(crate) fn node_port_at(&self, node: IpAddr) -> Target {
        self.target(node, NODE_PORT)
    }

    const fn target(&self, ip: IpAddr, port: u16) -> Target {
        Target::new(self.transport, SocketAddr::new(ip, port))
    }
}
