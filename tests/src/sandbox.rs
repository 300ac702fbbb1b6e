//! A small cluster in network namespaces.
//!
//! ```text
//!   outside ---- eth0  node  eth1 ---- eth0  node2
//!                       |                      |
//!               pod-a pod-b pod-c            pod-d
//! ```
//!
//! Each of them has an IPv4 address and, of the same digits, an IPv6 address if this machine has IPv6. The agent runs on `node`.
//! Nothing but routes connects the parts: no bridge, no NAT, no netfilter
//! rules. `node2` sends everything that is not for its own pods through `node`, so that the replies
//! of its pods to the outside come back where their requests were translated.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use nix::{ifaddrs::getifaddrs, net::if_::InterfaceFlags};

use crate::{
    families::has_ipv6, namespace::Namespace, needs::has_root, server::Server, wait::wait_until,
};

/// Addresses of the sandbox.
pub mod addresses {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    /// This node.
    pub const NODE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 168, 16, 10));
    /// The second node.
    pub const NODE2: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 168, 16, 20));
    /// A backend pod on this node.
    pub const POD_A: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 1, 1, 3));
    /// Another backend pod on this node.
    pub const POD_B: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 1, 1, 4));
    /// The client pod on this node.
    pub const POD_C: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 1, 1, 5));
    /// A backend pod on the second node.
    pub const POD_D: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 1, 2, 3));
    /// The client outside the cluster.
    pub const OUTSIDE: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 50));
    /// The addresses of this node's pods.
    pub const POD_CIDR: &str = "10.1.1.0/24";
    /// The same for IPv6.
    pub const POD_CIDR_V6: &str = "fd00:10:1:1::/64";

    /// The IPv6 address of the host that has this IPv4 address, of the same digits: `fd00:10:1:1::3` for
    /// 10.1.1.3. An IPv6 address is its own.
    pub fn v6(address: IpAddr) -> IpAddr {
        let IpAddr::V4(v4) = address else {
            return address;
        };
        // Each number as if it were hexadecimal.
        let digits = |number: u8| {
            let number = u16::from(number);
            number / 100 * 0x100 + number / 10 % 10 * 0x10 + number % 10
        };
        let [a, b, c, d] = v4.octets().map(digits);
        Ipv6Addr::new(0xfd00, a, b, c, 0, 0, 0, d).into()
    }
}

/// The node's address towards the outside.
const NODE_OUTSIDE: &str = "198.51.100.1";

/// Gateway of this node's pods.
const GATEWAY: &str = "10.1.1.254";

/// Gateway of the second node's pods.
const GATEWAY2: &str = "10.1.2.254";

/// The addresses of the second node's pods.
const POD_CIDR2: &str = "10.1.2.0/24";

/// The same for IPv6.
const POD_CIDR2_V6: &str = "fd00:10:1:2::/64";

/// Time that a new device may take until it is running.
const RUNNING: Duration = Duration::from_secs(10);

/// A pod: a namespace whose `eth0` is the other end of an interface of its node.
#[derive(Debug)]
pub struct Pod {
    address: IpAddr,
    server: Option<Server>,
    namespace: Namespace,
}

impl Pod {
    /// The pod's IPv4 address.
    pub const fn address(&self) -> IpAddr {
        self.address
    }

    /// Returns the namespace of its processes.
    pub const fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Its servers, if it has any.
    pub const fn server(&self) -> Option<&Server> {
        self.server.as_ref()
    }

    /// The address of its server on this port.
    pub const fn at(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.address, port)
    }

    /// Its IPv6 address.
    pub fn at_v6(&self, port: u16) -> SocketAddr {
        SocketAddr::new(addresses::v6(self.address), port)
    }
}

/// Connects a pod to its node: the pod's `eth0` is the other end of the node's `device`. It has this IPv4
/// address and the IPv6 address of the same digits, and so has its gateway, which is the node.
///
/// # Errors
///
/// If `gateway` is no address, or the `ip` command refuses.
pub fn connect_pod(
    node: &Namespace,
    device: &str,
    pod: &Namespace,
    address: IpAddr,
    gateway: &str,
) -> Result<()> {
    let (address_v6, gateway_v6) = (addresses::v6(address), addresses::v6(gateway.parse()?));
    node.configure_families(&format!(
        "link add {device} type veth peer name eth0 netns {}\n\
         address add {gateway}/32 dev {device}\n\
         address add {gateway_v6}/128 dev {device} nodad\n\
         link set {device} up\n\
         route add {address}/32 dev {device}\n\
         route add {address_v6}/128 dev {device}\n",
        pod.name(),
    ))?;
    pod.configure_families(&format!(
        "address add {address}/32 dev eth0\n\
         address add {address_v6}/128 dev eth0 nodad\n\
         link set eth0 up\n\
         route add {gateway}/32 dev eth0\n\
         route add default via {gateway} dev eth0\n\
         route add {gateway_v6}/128 dev eth0\n\
         route add ::/0 via {gateway_v6} dev eth0\n"
    ))?;
    await_running(node, device)?;
    await_running(pod, "eth0")
}

/// Waits until a device takes packets. A worker of the kernel's sees to that after both ends are up; what
/// comes before is dropped, and a neighbour is asked for again only after a second.
fn await_running(namespace: &Namespace, device: &str) -> Result<()> {
    let what = format!("{device} in {} is running", namespace.name());
    let is_running = || {
        getifaddrs().is_ok_and(|mut all| {
            all.any(|one| {
                one.interface_name == device && one.flags.contains(InterfaceFlags::IFF_RUNNING)
            })
        })
    };
    wait_until(&what, RUNNING, || namespace.enter(is_running).then_some(()))
}

/// Two nodes, their pods and a client outside. Dropping it removes all of it.
#[derive(Debug)]
pub struct Sandbox {
    number: u32,
    // Before the nodes: the servers end first, then the pods' namespaces, then the nodes'.
    pods: BTreeMap<String, Pod>,
    outside: Namespace,
    node: Namespace,
    node2: Namespace,
}

impl Sandbox {
    /// Builds the nodes, the pods `pod-a`, `pod-b` and `pod-c` on this node, `pod-d` on the second
    /// one, and the client outside. Nothing listens anywhere yet.
    ///
    /// # Errors
    ///
    /// Without root, or without the `ip` command.
    pub fn new() -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut sandbox = Self {
            number,
            pods: BTreeMap::new(),
            outside: Namespace::new(number, "outside")?,
            node: Namespace::new(number, "node")?,
            node2: Namespace::new(number, "node2")?,
        };
        sandbox.connect_nodes()?;
        sandbox.add_pod("pod-a", addresses::POD_A)?;
        sandbox.add_pod("pod-b", addresses::POD_B)?;
        sandbox.add_pod("pod-c", addresses::POD_C)?;
        let pod_d = Self::make_pod(number, &sandbox.node2, "pod-d", addresses::POD_D, GATEWAY2)?;
        sandbox.pods.insert("pod-d".to_owned(), pod_d);
        Ok(sandbox)
    }

    /// This node's namespace, where the agent belongs.
    pub const fn node(&self) -> &Namespace {
        &self.node
    }

    /// The second node's namespace.
    pub const fn node2(&self) -> &Namespace {
        &self.node2
    }

    /// The namespace of the client outside the cluster.
    pub const fn outside(&self) -> &Namespace {
        &self.outside
    }

    /// A pod, by its name.
    ///
    /// # Panics
    ///
    /// When there is none with this name.
    pub fn pod(&self, name: &str) -> &Pod {
        let Some(pod) = self.pods.get(name) else {
            panic!("the sandbox has no pod {name}")
        };
        pod
    }

    /// All pods, by their names.
    pub fn pods(&self) -> impl Iterator<Item = (&str, &Pod)> {
        self.pods.iter().map(|(name, pod)| (name.as_str(), pod))
    }

    /// A new one whose pods a, b and d serve on this port; skips the test without root.
    ///
    /// # Panics
    ///
    /// If it cannot be made.
    #[expect(clippy::unwrap_used, reason = "nothing can be tested then")]
    pub fn serving(port: u16) -> Option<Self> {
        if !has_root() {
            return None;
        }
        let mut sandbox = Self::new().unwrap();
        for pod in ["pod-a", "pod-b", "pod-d"] {
            sandbox.serve(pod, &[port]).unwrap();
        }
        Some(sandbox)
    }

    /// Starts TCP and UDP servers on these ports of a pod's addresses, in place of those that it had.
    ///
    /// # Errors
    ///
    /// When a port cannot be bound.
    pub fn serve(&mut self, name: &str, ports: &[u16]) -> Result<()> {
        let pod = self
            .pods
            .get_mut(name)
            .with_context(|| format!("there is no pod {name}"))?;
        pod.server = None;
        let both = [pod.address, addresses::v6(pod.address)];
        let served = if has_ipv6() { &both[..] } else { &both[..1] };
        pod.server = Some(Server::start(&pod.namespace, name, served, ports)?);
        Ok(())
    }

    /// Adds a pod with this IPv4 address to this node; the node's interface to it is called as the pod is.
    ///
    /// # Errors
    ///
    /// When the name or the address is taken.
    pub fn add_pod(&mut self, name: &str, address: IpAddr) -> Result<()> {
        if self.pods.contains_key(name) {
            bail!("there is a pod {name} already");
        }
        let pod = Self::make_pod(self.number, &self.node, name, address, GATEWAY)?;
        self.pods.insert(name.to_owned(), pod);
        Ok(())
    }

    /// Removes a pod of this node with its interface.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn remove_pod(&mut self, name: &str) -> Result<()> {
        let pod = self
            .pods
            .remove(name)
            .with_context(|| format!("there is no pod {name}"))?;
        self.node.configure(&format!("link delete {name}\n"))?;
        drop(pod);
        Ok(())
    }

    fn connect_nodes(&self) -> Result<()> {
        let Self {
            number: _,
            pods: _,
            outside,
            node,
            node2,
        } = self;
        let (outside_address, node_address, node2_address) =
            (addresses::OUTSIDE, addresses::NODE, addresses::NODE2);
        let [outside_v6, node_v6, node2_v6] =
            [outside_address, node_address, node2_address].map(addresses::v6);
        let node_outside_v6 = addresses::v6(NODE_OUTSIDE.parse()?);
        node.configure_families(&format!(
            "link add eth0 type veth peer name eth0 netns {}\n\
             link add eth1 type veth peer name eth0 netns {}\n\
             address add {NODE_OUTSIDE}/24 dev eth0\n\
             address add {node_outside_v6}/64 dev eth0 nodad\n\
             address add {node_address}/24 dev eth1\n\
             address add {node_v6}/64 dev eth1 nodad\n\
             link set eth0 up\n\
             link set eth1 up\n\
             route add {POD_CIDR2} via {node2_address}\n\
             route add {POD_CIDR2_V6} via {node2_v6}\n",
            outside.name(),
            node2.name(),
        ))?;
        outside.configure_families(&format!(
            "address add {outside_address}/24 dev eth0\n\
             address add {outside_v6}/64 dev eth0 nodad\n\
             link set eth0 up\n\
             route add default via {NODE_OUTSIDE}\n\
             route add ::/0 via {node_outside_v6}\n"
        ))?;
        node2.configure_families(&format!(
            "address add {node2_address}/24 dev eth0\n\
             address add {node2_v6}/64 dev eth0 nodad\n\
             link set eth0 up\n\
             route add default via {node_address}\n\
             route add ::/0 via {node_v6}\n"
        ))?;
        for device in ["eth0", "eth1"] {
            await_running(node, device)?;
        }
        for host in [outside, node2] {
            await_running(host, "eth0")?;
        }
        // The one thing that translation needs of the host. Everything else, `rp_filter` too, is
        // as this machine has it.
        for node in [node, node2] {
            node.set("net/ipv4/ip_forward", "1")?;
            node.set_ipv6("conf/all/forwarding", "1")?;
        }
        Ok(())
    }

    /// Makes a pod behind `node`, as simple routed CNIs do: a veth pair, a host route to the pod,
    /// and in the pod a default route through an address of the node.
    fn make_pod(
        number: u32,
        node: &Namespace,
        name: &str,
        address: IpAddr,
        gateway: &str,
    ) -> Result<Pod> {
        let namespace = Namespace::new(number, name)?;
        connect_pod(node, name, &namespace, address, gateway)?;
        Ok(Pod {
            address,
            server: None,
            namespace,
        })
    }
}
