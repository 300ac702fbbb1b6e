//! Three nodes behind a router, which decides by which of them a client's packets come.
//!
//! ```text
//!   client ---- router ---- node-a   (no pods)
//!                 | `------ node-b ---- pod-b
//!                 `-------- node-c ---- pod-c
//! ```

use std::{
    net::{IpAddr, SocketAddr},
    path::Path,
    sync::atomic::{AtomicU32, Ordering},
};

use nix::{net::if_::if_nametoindex, sys::signal::Signal};
use serde_json::{Value, json};
use shunt_tests::{
    Ack, Agent, ForeignXdp, Namespace, PinDir, Server, Target, Transport, addresses::v6,
    connect_pod, has_root,
};

use crate::{
    command::{Ran, shunt_at},
    dual_stack::Family,
    world::{SERVED, binary},
    xdp::{as_from_a_wire, has_ethtool},
};

/// The client outside.
pub(crate) const CLIENT: &str = "198.51.100.50";
/// The router's end of its link.
const ROUTER: &str = "198.51.100.1";
/// Address of the service for the client.
const EXTERNAL_IP: &str = "203.0.113.7";
const PORT: u16 = 80;
const NODE_PORT: u16 = 30080;

/// A node, by the numbers in its addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    name: &'static str,
    number: u8,
    has_pod: bool,
}

/// The nodes.
pub(crate) const A: Place = Place::new("node-a", 1, false);
pub(crate) const B: Place = Place::new("node-b", 2, true);
pub(crate) const C: Place = Place::new("node-c", 3, true);
pub(crate) const ALL: [Place; 3] = [A, B, C];

impl Place {
    const fn new(name: &'static str, number: u8, has_pod: bool) -> Self {
        Self {
            name,
            number,
            has_pod,
        }
    }

    /// The node's own address.
    pub(crate) fn address(self) -> IpAddr {
        ip(&format!("192.168.{}.10", self.number))
    }

    /// The router's address on its link.
    pub(crate) fn router(self) -> IpAddr {
        ip(&format!("192.168.{}.1", self.number))
    }

    /// Returns the address that its pod serves at.
    pub(crate) fn pod(self) -> SocketAddr {
        SocketAddr::new(ip(&format!("10.1.{}.3", self.number)), SERVED)
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A node with its agent and its pod; what ends first comes first.
struct Node {
    agent: Agent,
    flags: Vec<String>,
    pins: PinDir,
    _server: Option<Server>,
    _pod: Option<Namespace>,
    namespace: Namespace,
}

/// All of it, with one service whose backends are the pods.
pub(crate) struct World {
    /// The router's own programs, if nodes' drivers have theirs.
    _passing: Vec<ForeignXdp>,
    nodes: Vec<Node>,
    pub(crate) client: Namespace,
    pub(crate) router: Namespace,
    transport: Transport,
}

impl World {
    /// With the service in this mode, and the nodes' only uplinks in this mode of `--xdp`; the service's tables
    /// are Maglev's. `None` without root, or without what the mode needs.
    pub(crate) fn new(transport: Transport, forwarding: &str, xdp: &str) -> Option<Self> {
        Self::with(transport, forwarding, xdp, |_| &[])
    }

    /// The same with further flags for the nodes' agents.
    pub(crate) fn with(
        transport: Transport,
        forwarding: &str,
        xdp: &str,
        flags: impl Fn(Place) -> &'static [&'static str],
    ) -> Option<Self> {
        Self::of(&binary(), transport, forwarding, xdp, flags)
    }

    /// The same with agents of this binary.
    pub(crate) fn of(
        agent: &Path,
        transport: Transport,
        forwarding: &str,
        xdp: &str,
        flags: impl Fn(Place) -> &'static [&'static str],
    ) -> Option<Self> {
        // Beside the sandboxes' own, which count from 0.
        static NEXT: AtomicU32 = AtomicU32::new(2_000_000);
        if !has_root() {
            return None;
        }
        let has_drivers = xdp != "off";
        let mut passing = Vec::new();
        if has_drivers && !has_ethtool() {
            return None;
        }
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let client = Namespace::new(number, "client").unwrap();
        let router = Namespace::new(number, "router").unwrap();
        connect(&router, "client", ip(ROUTER), &client, ip(CLIENT));
        for setting in ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"] {
            router.set(setting, "1").unwrap();
        }
        let nodes = ALL.map(|place| node(agent, number, place, &router, xdp, flags(place)));
        if has_drivers {
            as_from_a_wire(&client, "eth0");
            for interface in ["client", A.name, B.name, C.name] {
                as_from_a_wire(&router, interface);
            }
        }
        if xdp == "native" {
            // A far end without a program is not notified of what the driver of a pair sends back (veth_xdp_flush of
            // drivers/net/veth.c): it would find it with the next packet.
            passing = ALL.map(|place| passing_at(&router, place.name)).into();
        }
        // Replies come from another node than requests go to.
        for interface in ["all", "client", A.name, B.name, C.name] {
            let setting = format!("net/ipv4/conf/{interface}/rp_filter");
            router.set(&setting, "0").unwrap();
        }
        let mut world = Self {
            _passing: passing,
            nodes: nodes.into(),
            client,
            router,
            transport,
        };
        for place in ALL {
            world.resync(place, forwarding);
        }
        world.go_by(A);
        Some(world)
    }

    /// Kills a node's agent, and starts one of this binary in its place.
    pub(crate) fn replace_agent(&mut self, place: Place, binary: &Path) {
        let Node {
            agent,
            flags,
            pins,
            namespace,
            ..
        } = &mut self.nodes[usize::from(place.number) - 1];
        agent.end(Signal::SIGKILL).unwrap();
        *agent = Agent::start(binary, namespace, pins, flags).unwrap();
    }

    /// A node learns of everything again, as at the start.
    pub(crate) fn resync(&mut self, place: Place, forwarding: &str) {
        let service = service(place, self.transport, forwarding);
        self.apply(place, &resync(place, &service));
    }

    fn apply(&mut self, place: Place, event: &str) {
        let node = &mut self.nodes[usize::from(place.number) - 1];
        if let Ack::Refused(reason) = node.agent.apply(event).unwrap() {
            panic!("{} refuses {event}\nbecause {reason}", place.name);
        }
    }

    /// Has the router send the client's packets by this node from now on.
    pub(crate) fn go_by(&self, place: Place) {
        let via = place.address();
        let routes = Family::BOTH.map(|family| {
            let (to, via) = (family.of(ip(EXTERNAL_IP)), family.of(via));
            format!("route replace {to} via {via}\n")
        });
        self.router.configure(&routes.concat()).unwrap();
    }

    /// A client of the service's NodePort at a node.
    pub(crate) fn node_port(&self, family: Family, place: Place) -> Target {
        let address = SocketAddr::new(family.of(place.address()), NODE_PORT);
        Target::new(self.transport, address)
    }

    /// A client of the service.
    pub(crate) fn target(&self, family: Family) -> Target {
        let address = SocketAddr::new(family.of(ip(EXTERNAL_IP)), PORT);
        Target::new(self.transport, address)
    }

    /// Runs `shunt status` at a node, with these further arguments.
    pub(crate) fn status(&self, place: Place, arguments: &[&str]) -> Ran {
        self.shunt(place, &[&["status"], arguments].concat())
    }

    /// Runs `shunt` with these arguments at a node.
    pub(crate) fn shunt(&self, place: Place, arguments: &[&str]) -> Ran {
        let node = &self.nodes[usize::from(place.number) - 1];
        shunt_at(node.agent.socket(), arguments, "")
    }

    /// Returns the namespace of a node's processes.
    pub(crate) fn node(&self, place: Place) -> &Namespace {
        &self.nodes[usize::from(place.number) - 1].namespace
    }

    /// Returns a node's counter.
    pub(crate) fn counted(&self, place: Place, counter: &str) -> u64 {
        let status = self.status(place, &["-o", "json"]).json();
        status["counters"][counter].as_u64().unwrap()
    }

    /// A node learns where these nodes are, and that there are no others.
    pub(crate) fn tell_nodes(&mut self, place: Place, nodes: &[Place]) {
        let event = json!({ "event": "UpdateNodes", "nodes": addresses_of(nodes) });
        self.apply(place, &event.to_string());
    }

    /// All nodes learn that this one's pod has these fields besides.
    pub(crate) fn change_pod_at(&mut self, changed: Place, forwarding: &str, fields: &Value) {
        for place in ALL {
            let mut service = service(place, self.transport, forwarding);
            let backends = service["backends"]["main"].as_array_mut().unwrap();
            for backend in backends {
                if backend["node"] == changed.name {
                    let fields = fields.as_object().unwrap().clone();
                    backend.as_object_mut().unwrap().extend(fields);
                }
            }
            let event = json!({ "event": "UpdateService", "service": service });
            self.apply(place, &event.to_string());
        }
    }

    /// A node learns that its own pod is gone, and the others do not.
    pub(crate) fn remove_pod_at(&mut self, place: Place, forwarding: &str) {
        let mut service = service(place, self.transport, forwarding);
        let backends = service["backends"]["main"].as_array_mut().unwrap();
        backends.retain(|backend| backend["node"] != place.name);
        let event = json!({ "event": "UpdateService", "service": service });
        self.apply(place, &event.to_string());
    }
}

/// Connects `there`'s `eth0` to the router's interface of this name.
fn connect(router: &Namespace, name: &str, at: IpAddr, there: &Namespace, address: IpAddr) {
    let [at_v6, address_v6] = [at, address].map(v6);
    router
        .configure(&format!(
            "link add {name} type veth peer name eth0 netns {}\n\
             address add {at}/24 dev {name}\n\
             address add {at_v6}/64 dev {name} nodad\n\
             link set {name} up\n",
            there.name(),
        ))
        .unwrap();
    there
        .configure(&format!(
            "address add {address}/24 dev eth0\n\
             address add {address_v6}/64 dev eth0 nodad\n\
             link set eth0 up\n\
             route add default via {at}\n\
             route add ::/0 via {at_v6}\n"
        ))
        .unwrap();
}

/// Has an interface pass all packets by a program in its driver.
fn passing_at(namespace: &Namespace, interface: &str) -> ForeignXdp {
    namespace.enter(|| {
        let index = if_nametoindex(interface).unwrap();
        ForeignXdp::attach(index).unwrap()
    })
}

/// A node behind the router, with its pod and its agent.
fn node(
    binary: &Path,
    number: u32,
    place: Place,
    router: &Namespace,
    xdp: &str,
    further: &[&str],
) -> Node {
    let namespace = Namespace::new(number, place.name).unwrap();
    connect(
        router,
        place.name,
        place.router(),
        &namespace,
        place.address(),
    );
    namespace.set("net/ipv4/ip_forward", "1").unwrap();
    namespace.set("net/ipv6/conf/all/forwarding", "1").unwrap();
    let (pod, server) = place
        .has_pod
        .then(|| {
            let pod = make_pod(number, place, &namespace);
            let address = place.pod().ip();
            let both = [address, v6(address)];
            let server = Server::start(&pod, place.name, &both, &[SERVED]).unwrap();
            let routes = Family::BOTH.map(|family| {
                let (to, via) = (family.of(address), family.of(place.address()));
                format!("route add {to} via {via}\n")
            });
            router.configure(&routes.concat()).unwrap();
            (pod, server)
        })
        .unzip();
    let pins = PinDir::new();
    let pods = format!("10.1.{}.0/24", place.number);
    let pods_v6 = format!("{}/64", v6(ip(&format!("10.1.{}.0", place.number))));
    let flags = [
        ["--pod-cidr", &pods],
        ["--pod-cidr", &pods_v6],
        ["--max-frontends", "64"],
        ["--max-slots", "16384"],
        ["--max-backends", "256"],
        ["--max-conntrack", "65536"],
        ["--external-selection", "maglev"],
        ["--xdp", xdp],
        ["--xdp-interface", "eth0"],
    ];
    let flags = [flags.as_flattened(), further].concat();
    let agent = Agent::start(binary, &namespace, &pins, &flags).unwrap();
    Node {
        agent,
        flags: flags.into_iter().map(str::to_owned).collect(),
        pins,
        _server: server,
        _pod: pod,
        namespace,
    }
}

fn make_pod(number: u32, place: Place, node: &Namespace) -> Namespace {
    let pod = Namespace::new(number, &format!("pod-{}", place.number)).unwrap();
    let gateway = format!("10.1.{}.254", place.number);
    connect_pod(node, "pod", &pod, place.pod().ip(), &gateway).unwrap();
    pod
}

/// A node's addresses.
fn both_addresses(place: Place) -> [IpAddr; 2] {
    [place.address(), v6(place.address())]
}

/// Nodes as events have them: names and addresses.
fn addresses_of(nodes: &[Place]) -> serde_json::Map<String, Value> {
    let nodes = nodes.iter();
    nodes
        .map(|place| (place.name.to_owned(), json!(both_addresses(*place))))
        .collect()
}

/// Returns a node's Resync of the cluster.
fn resync(place: Place, service: &Value) -> String {
    let interfaces = if place.has_pod {
        vec!["eth0", "pod"]
    } else {
        vec!["eth0"]
    };
    json!({
        "event": "Resync",
        "node_ips": ALL.map(both_addresses).concat(),
        "services": [service],
        "frontend_ifs": interfaces,
        "backend_ifs": [],
        "nodes": addresses_of(&ALL),
    })
    .to_string()
}

/// The service in a node's events.
fn service(at: Place, transport: Transport, forwarding: &str) -> Value {
    let backends: Vec<Value> = ALL
        .into_iter()
        .filter(|place| place.has_pod)
        .flat_map(|place| {
            let pod = place.pod();
            [pod.ip(), v6(pod.ip())].map(|ip| {
                json!({
                    "ip": ip, "port": pod.port(), "local": place.number == at.number,
                    "node": place.name,
                })
            })
        })
        .collect();
    json!({
        "id": { "namespace": "default", "name": "web" },
        "cluster_ips": ["10.96.0.10", v6(ip("10.96.0.10"))],
        "external_ips": [EXTERNAL_IP, v6(ip(EXTERNAL_IP)).to_string()],
        "traffic_policy": "Cluster",
        "session_affinity_timeout": 0,
        "forwarding": forwarding,
        "ports": { "main": { "protocol": transport.to_string(), "port": PORT, "node_port": NODE_PORT } },
        "backends": { "main": backends },
    })
}
