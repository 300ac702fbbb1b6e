//! A world whose node has clients of its own: processes in a cgroup.

use std::{
    net::{IpAddr, SocketAddr},
    path::Path,
};

use serde_json::{Value, json};
use shunt_tests::{Cgroup, Namespace, Transport, addresses, has_root};

use crate::{
    service::Service,
    syscalls::Caller,
    world::{Unattended, World, resync},
};

/// A world, and a cgroup of its own for those of its clients that are to be translated.
pub(crate) struct HostWorld {
    // The agent ends before its cgroup does.
    pub(crate) world: World,
    pub(crate) cgroup: Cgroup,
}

impl HostWorld {
    /// Sets up a node that translates the connections of the cgroup's processes in this `mode`.
    pub(crate) fn new(mode: &str) -> Option<Self> {
        Self::with_flags(mode, &[])
    }

    /// As [`Self::new`], with further flags for the agent.
    pub(crate) fn with_flags(mode: &str, further: &[&str]) -> Option<Self> {
        if !has_root() {
            return None;
        }
        let cgroup = Cgroup::new().unwrap();
        let flags = [&flags(mode, &cgroup)[..], further].concat();
        let world = World::with_flags(&flags)?;
        Some(Self { world, cgroup })
    }

    /// A service of both families, with a backend in a pod of this node and in one of another.
    pub(crate) fn serve(&mut self, transport: Transport) -> Service {
        let world = &mut self.world;
        let service = ["pod-a", "pod-d"].into_iter().fold(
            Service::new(transport).dual_stack(),
            |service, pod| {
                service
                    .backend(world.backend(pod))
                    .backend(world.backend_v6(pod))
            },
        );
        world.update(&service);
        service
    }

    /// Adds or replaces services.
    pub(crate) fn update(&mut self, services: &[Value]) {
        for service in services {
            let event = json!({ "event": "UpdateService", "service": service });
            self.world.apply(&event.to_string());
        }
    }

    /// A world in which all nodes are known, and pod-a serves the service 10.96.0.10, whose NodePort is 30080.
    pub(crate) fn with_a_node_port() -> Option<Self> {
        let mut host = Self::new("host")?;
        host.know_nodes();
        let backends = [host.world.backend("pod-a"), host.world.backend_v6("pod-a")];
        host.update(&[with_node_port(
            service("np", "10.96.0.10", &backends),
            30080,
        )]);
        Some(host)
    }

    /// Sends the agent the nodes' addresses of both families.
    pub(crate) fn know_nodes(&mut self) {
        let mut event: Value = serde_json::from_str(&resync()).unwrap();
        let nodes = [addresses::NODE, addresses::NODE2];
        event["node_ips"] = json!([nodes, nodes.map(addresses::v6)].concat());
        self.world.apply(&event.to_string());
    }

    /// A process of the node that makes the system calls of a test.
    pub(crate) fn caller(&self) -> Caller {
        Caller::start(&self.cgroup, self.world.sandbox.node())
    }

    /// The same in a pod with `hostNetwork`: its processes and mounts are its own.
    pub(crate) fn host_network_pod(&self) -> Caller {
        let unshare = ["--pid", "--mount", "--fork", "--kill-child"];
        let node = self.world.sandbox.node();
        Caller::start_by(&self.cgroup, node, Path::new("unshare"), &unshare)
    }

    /// Returns the result of a process of the node that connects to `target`, or the reason why it has no answer.
    pub(crate) fn ask(&self, way: &str, target: SocketAddr) -> Result<Value, String> {
        ask(&self.cgroup, self.world.sandbox.node(), way, target)
    }

    /// A counter of the programs.
    pub(crate) fn count(&self, counter: &str) -> u64 {
        let status = self.world.shunt(&["status", "-o", "json"]).json();
        status["counters"][counter].as_u64().unwrap()
    }

    /// The agent is replaced by the next one, with further flags.
    pub(crate) fn restart(self, end: impl FnOnce(World) -> Unattended, flags: &[&str]) -> Self {
        let Self { world, cgroup } = self;
        let world = end(world).start(flags);
        Self { world, cgroup }
    }
}

/// The flags by which the cgroup's processes are clients.
pub(crate) fn flags<'a>(mode: &'a str, cgroup: &'a Cgroup) -> [&'a str; 4] {
    let path = cgroup.path().to_str().unwrap();
    ["--socket-lb", mode, "--cgroup", path]
}

/// Returns the result of a process of the cgroup in the namespace that connects to `target`.
pub(crate) fn ask(
    cgroup: &Cgroup,
    namespace: &Namespace,
    way: &str,
    target: SocketAddr,
) -> Result<Value, String> {
    let client = Path::new(env!("CARGO_BIN_EXE_client"));
    let said = cgroup.run(namespace, client, &[way, &target.to_string()]);
    let said = said.map_err(|error| format!("{error:#}"))?;
    Ok(serde_json::from_str(&said).unwrap())
}

/// An IPv4 address as an IPv6 socket has it.
pub(crate) fn mapped(address: SocketAddr) -> SocketAddr {
    let SocketAddr::V4(v4) = address else {
        panic!("{address} is none of IPv4");
    };
    SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port())
}

/// Makes a backend's addresses of both families ones to which the node has no way.
pub(crate) fn lose(node: &Namespace) -> [SocketAddr; 2] {
    let v4 = IpAddr::from([10, 1, 9, 9]);
    let lost = [v4, addresses::v6(v4)];
    for address in lost {
        node.configure(&format!("route add unreachable {address}\n"))
            .unwrap();
    }
    lost.map(|address| SocketAddr::new(address, 8080))
}

/// A service as events hold it: port 80 of TCP and UDP at this address and at its IPv6 address. Tests
/// put in what else they need.
pub(crate) fn service(name: &str, ip: &str, backends: &[SocketAddr]) -> Value {
    let ip = ip.parse().unwrap();
    let remote = [addresses::POD_D, addresses::v6(addresses::POD_D)];
    let backends: Vec<_> = backends
        .iter()
        .map(|at| json!({ "ip": at.ip(), "port": at.port(), "local": !remote.contains(&at.ip()) }))
        .collect();
    json!({
        "id": { "namespace": "default", "name": name },
        "cluster_ips": [ip, addresses::v6(ip)],
        "ports": {
            "tcp": { "protocol": "TCP", "port": 80 },
            "udp": { "protocol": "UDP", "port": 80 },
        },
        "backends": { "tcp": backends, "udp": backends },
    })
}

/// The service with this NodePort, of TCP and UDP.
pub(crate) fn with_node_port(mut service: Value, port: u16) -> Value {
    for protocol in ["tcp", "udp"] {
        service["ports"][protocol]["node_port"] = port.into();
    }
    service
}
