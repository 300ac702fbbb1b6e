//! Pods as other network plugins make them, on the node of a sandbox.

use std::{net::IpAddr, time::Duration};

use shunt_tests::{Namespace, Server, Target, addresses, wait_until};

use crate::world::{REQUEST, SERVED, World};

/// Time that the agent may take to see an interface.
const SOON: Duration = Duration::from_secs(5);

/// A pod that a network plugin has made; its servers end first.
pub(crate) struct CniPod {
    pub(crate) address: IpAddr,
    _server: Server,
    namespace: Namespace,
}

impl CniPod {
    pub(crate) const fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// The pod's namespace, its end of the pair `interface` in it, and its servers.
    fn new(world: &World, interface: &str, address: &str, setup: &str) -> Self {
        // Beside the sandbox's own, which count from 0.
        const NUMBER: u32 = 1_000_000;
        let port = world.agent.pid();
        let namespace = Namespace::new(NUMBER + port, interface).unwrap();
        let node = world.sandbox.node();
        node.configure(&format!(
            "link add {interface} type veth peer name eth0 netns {}\n",
            namespace.name()
        ))
        .unwrap();
        namespace.configure(setup).unwrap();
        let ip = address.parse().unwrap();
        let server = Server::start(&namespace, interface, &[ip], &[SERVED]).unwrap();
        Self {
            address: ip,
            _server: server,
            namespace,
        }
    }

    /// Opens connections from it, all of which must be answered. Returns the names of the pods that answered
    /// and the addresses that they saw.
    pub(crate) fn ask(&self, target: Target, times: u32) -> Vec<(String, IpAddr)> {
        asked(&self.namespace, target, times)
    }
}

impl World {
    /// Waits until the programs are on these interfaces.
    pub(crate) fn wait_for_interfaces(&self, names: &[&str]) {
        let is_attached = |name: &str| {
            let status = self.shunt(&["status", "-o", "json"]).json();
            let interfaces = status["interfaces"].as_array().unwrap();
            let mut of_name = interfaces.iter().filter(|known| known["name"] == name);
            of_name.any(|interface| interface["state"] == "attached")
        };
        wait_until("the interfaces are attached", SOON, || {
            names.iter().all(|name| is_attached(name)).then_some(())
        })
        .unwrap();
    }
}

/// Opens connections from a namespace, all of which must be answered. Returns the pods that answered, and the
/// addresses that they saw, each once.
pub(crate) fn asked(from: &Namespace, target: Target, times: u32) -> Vec<(String, IpAddr)> {
    let mut seen: Vec<_> = from.enter(|| {
        (0..times)
            .map(|number| match target.ask(REQUEST) {
                Ok(answer) => (answer.name, answer.peer.ip()),
                Err(error) => panic!("connection {number} from {from:?} to {target:?}: {error}"),
            })
            .collect()
    });
    seen.sort();
    seen.dedup();
    seen
}

/// A pod behind a Linux bridge, as the plugin `bridge` makes it, which flannel uses: the node's bridge is
/// `cni0`, which has the gateway's address.
fn bridge_pod(world: &World, interface: &str, address: &str) -> CniPod {
    let pod = CniPod::new(
        world,
        interface,
        address,
        &format!(
            "address add {address}/24 dev eth0\n\
             link set eth0 up\n\
             route add default via 10.1.3.1\n"
        ),
    );
    let hairpin = format!(
        "link set {interface} master cni0\n\
         link set {interface} up\n"
    );
    world.sandbox.node().configure(&hairpin).unwrap();
    pod
}

/// Two pods behind a bridge, called as their ports, `port-a` and `port-b`, once the programs are on
/// `attached`.
pub(crate) fn bridged_pods(world: &World, attached: &[&str]) -> [CniPod; 2] {
    let bridge = "link add cni0 type bridge\n\
         address add 10.1.3.1/24 dev cni0\n\
         link set cni0 up\n";
    world.sandbox.node().configure(bridge).unwrap();
    let pods = [("port-a", "10.1.3.3"), ("port-b", "10.1.3.4")]
        .map(|(port, address)| bridge_pod(world, port, address));
    world.wait_for_interfaces(attached);
    pods
}

/// A pod of a routed plugin such as Calico: the node has a host route to it, and answers for its gateway, a
/// link-local address that no host has (`proxy_arp`).
pub(crate) fn routed_pod(world: &World, interface: &str, address: &str) -> CniPod {
    let pod = CniPod::new(
        world,
        interface,
        address,
        &format!(
            "address add {address}/32 dev eth0\n\
             link set eth0 up\n\
             route add 169.254.1.1 dev eth0 scope link\n\
             route add default via 169.254.1.1 dev eth0\n"
        ),
    );
    let node = world.sandbox.node();
    // It answers only for addresses to which it has a route, which is the default one here. The route to
    // the pod names its source, as Calico's `DeviceRouteSourceAddress` does: this interface has no address
    // of its own, and Linux would take the first one of any other.
    let routes = format!(
        "link set {interface} up\n\
         route add {address}/32 dev {interface} scope link src {}\n\
         route replace default via {}\n",
        addresses::NODE,
        addresses::OUTSIDE
    );
    node.configure(&routes).unwrap();
    node.set(&format!("net/ipv4/conf/{interface}/proxy_arp"), "1")
        .unwrap();
    // As Calico sets it; the default delay is for neighbours that could answer themselves.
    node.set(&format!("net/ipv4/neigh/{interface}/proxy_delay"), "0")
        .unwrap();
    pod
}
