//! One small cluster in both families: who is where, a service of three protocols, and a network.

use std::{
    net::{IpAddr, Ipv6Addr},
    sync::atomic::{AtomicU32, Ordering},
};

use shunt_common::registry::FamilyMaps;
use shunt_datapath::DatapathOptions;
use shunt_tests::{NEXT_HOP_TEXT, Namespace};

use super::{
    address::Address,
    frame::{Packet, SCTP_INIT, Transport, source_of},
    hooks::Hooks,
    node::{NODE, Node, Verdict},
};

/// The two families.
pub(crate) type V4 = [u8; 4];
pub(crate) type V6 = [u8; 16];

/// The link address of the network's uplink, `eth0`.
pub(crate) const UPLINK: [u8; 6] = [2, 0, 0, 0, 0, 0x10];
const UPLINK_TEXT: &str = "02:00:00:00:00:10";

/// The longest packets that go to a backend elsewhere, and to a client outside.
pub(crate) const BACKEND_MTU: [u16; 2] = [500, 1300];
pub(crate) const CLIENT_MTU: [u16; 2] = [600, 1400];

/// Packets that may open a flow to the service, of each protocol.
pub(crate) const SERVED: [Transport; 4] = [
    Transport::TcpSyn,
    Transport::Udp,
    Transport::UdpUnsummed,
    Transport::Sctp(SCTP_INIT),
];

/// A family's addresses.
pub(crate) trait Family: Address {
    const MAPS: FamilyMaps;
    /// This node's.
    const NODE: Self;
    /// A pod's of this node.
    const POD: Self;
    /// A host's outside the cluster.
    const OUTSIDER: Self;
    /// A backend's on this node, another's there, and one's on another node.
    const LOCAL: Self;
    const LOCAL_TOO: Self;
    const REMOTE: Self;
    const CLUSTER_IP: Self;
    const EXTERNAL_IP: Self;
    const HAIRPIN: Self;
    /// A router's on
    const ROUTER: Self;
    /// [`BACKEND_MTU`] and [`CLIENT_MTU`].
    const BACKEND_MTU: u16;
    const CLIENT_MTU: u16;

    /// The service's frontends.
    fn frontends() -> [(Self, u16); 3] {
        [
            (Self::CLUSTER_IP, 80),
            (Self::NODE, 30080),
            (Self::EXTERNAL_IP, 80),
        ]
    }
}

impl Family for V4 {
    const MAPS: FamilyMaps = FamilyMaps::V4;
    const NODE: Self = NODE;
    const POD: Self = [10, 1, 1, 9];
    const OUTSIDER: Self = [198, 51, 100, 5];
    const LOCAL: Self = [10, 1, 1, 3];
    const LOCAL_TOO: Self = [10, 1, 1, 4];
    const REMOTE: Self = [10, 1, 2, 3];
    const CLUSTER_IP: Self = [10, 96, 0, 1];
    const EXTERNAL_IP: Self = [203, 0, 113, 7];
    const HAIRPIN: Self = [169, 254, 254, 1];
    const ROUTER: Self = [172, 16, 0, 1];
    const BACKEND_MTU: u16 = BACKEND_MTU[0];
    const CLIENT_MTU: u16 = CLIENT_MTU[0];
}

impl Family for V6 {
    const MAPS: FamilyMaps = FamilyMaps::V6;
    const NODE: Self = Ipv6Addr::new(0x2001, 0xdb8, 0x16, 0, 0, 0, 0, 0x10).octets();
    const POD: Self = Ipv6Addr::new(0xfd00, 0x10, 1, 1, 0, 0, 0, 9).octets();
    const OUTSIDER: Self = Ipv6Addr::new(0x2001, 0xdb8, 0x51, 0, 0, 0, 0, 5).octets();
    const LOCAL: Self = Ipv6Addr::new(0xfd00, 0x10, 1, 1, 0, 0, 0, 3).octets();
    const LOCAL_TOO: Self = Ipv6Addr::new(0xfd00, 0x10, 1, 1, 0, 0, 0, 4).octets();
    const REMOTE: Self = Ipv6Addr::new(0xfd00, 0x10, 1, 2, 0, 0, 0, 3).octets();
    const CLUSTER_IP: Self = Ipv6Addr::new(0xfd00, 0x96, 0, 0, 0, 0, 0, 1).octets();
    const EXTERNAL_IP: Self = Ipv6Addr::new(0x2001, 0xdb8, 0x113, 0, 0, 0, 0, 7).octets();
    const HAIRPIN: Self = Ipv6Addr::new(0xfd9a, 0x7452, 0x4a6d, 0, 0, 0, 0, 1).octets();
    const ROUTER: Self = Ipv6Addr::new(0x2001, 0xdb8, 0x99, 0, 0, 0, 0, 1).octets();
    const BACKEND_MTU: u16 = BACKEND_MTU[1];
    const CLIENT_MTU: u16 = CLIENT_MTU[1];
}

/// The place of the service's backends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backends {
    Here,
    /// On this node too, but not the same.
    MovedHere,
    Elsewhere,
    Nowhere,
}

/// The Resync of this cluster with its one service: TCP, UDP and SCTP.
pub(crate) fn cluster(backends: Backends) -> String {
    let (local, addresses) = match backends {
        Backends::Here => (true, vec![address(V4::LOCAL), address(V6::LOCAL)]),
        Backends::MovedHere => (true, vec![address(V4::LOCAL_TOO), address(V6::LOCAL_TOO)]),
        Backends::Elsewhere => (false, vec![address(V4::REMOTE), address(V6::REMOTE)]),
        Backends::Nowhere => (false, vec![]),
    };
    let backends: Vec<_> = addresses
        .iter()
        .map(|ip| format!(r#"{{"ip":"{ip}","port":8080,"local":{local}}}"#))
        .collect();
    let backends = backends.join(",");
    let ports = ["TCP", "UDP", "SCTP"].map(|protocol| {
        format!(r#""{protocol}":{{"protocol":"{protocol}","port":80,"node_port":30080}}"#)
    });
    let backends = ["TCP", "UDP", "SCTP"].map(|name| format!(r#""{name}":[{backends}]"#));
    format!(
        r#"{{"event":"Resync","node_ips":["192.168.16.10","192.168.16.20","{}","2001:db8:16::20"],"frontend_ifs":[],"backend_ifs":[],"services":[{{"id":{{"namespace":"default","name":"web"}},"cluster_ips":["{}","{}"],"external_ips":["{}","{}"],"ports":{{{}}},"backends":{{{}}}}}]}}"#,
        address(V6::NODE),
        address(V4::CLUSTER_IP),
        address(V6::CLUSTER_IP),
        address(V4::EXTERNAL_IP),
        address(V6::EXTERNAL_IP),
        ports.join(","),
        backends.join(","),
    )
}

/// A node of this cluster.
pub(crate) fn node(backends: Backends) -> Node {
    node_with(|_| (), backends)
}

/// A node of this cluster with other options.
pub(crate) fn node_with(change: impl FnOnce(&mut DatapathOptions), backends: Backends) -> Node {
    Node::with(change, [cluster(backends).as_str()])
}

fn address(bytes: impl Into<IpAddr>) -> IpAddr {
    bytes.into()
}

/// An address of either family.
pub(crate) fn ip(address: impl Address) -> IpAddr {
    let bytes = address.as_ref();
    match <[u8; 4]>::try_from(bytes) {
        Ok(bytes) => bytes.into(),
        Err(_) => <[u8; 16]>::try_from(bytes).unwrap().into(),
    }
}

/// Returns the source that the backend sees, if the packet is sent on.
#[track_caller]
pub(crate) fn seen<A: Address>(verdict: &Verdict) -> (A, u16) {
    match verdict {
        Verdict::Redirect(frame) => source_of(frame),
        other => panic!("not forwarded: {other:?}"),
    }
}

/// Opens the flow of `packet` from outside to the backend elsewhere. Returns the packet as the
/// backend gets it.
#[track_caller]
pub(crate) fn open_transit<A: Family>(node: &mut Node, packet: &Packet<A>) -> Packet<A> {
    let sent = node.ingress(&packet.frame());
    let at_backend = packet.from(seen(&sent)).to((A::REMOTE, 8080)).forwarded();
    assert_eq!(sent, Verdict::Redirect(at_backend.frame()));
    assert_eq!(at_backend.source.0, A::NODE);
    at_backend
}

/// Runs a test in a network with routes to backends and clients, once with the programs of TC, once
/// with the XDP program before them; the frames come in by its loopback.
pub(crate) fn in_network(test: impl Fn() + Send + Sync) {
    for hooks in Hooks::ALL {
        in_one(|| hooks.with(&test));
    }
}

fn in_one(test: impl FnOnce() + Send) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let network = Namespace::new(number, "packets").unwrap();
    network.set("net/ipv4/ip_forward", "1").unwrap();
    network.set("net/ipv6/conf/all/forwarding", "1").unwrap();
    let ([backend_v4, backend_v6], [client_v4, client_v6]) = (BACKEND_MTU, CLIENT_MTU);
    network
        .configure(&format!(
            "link add eth0 address {UPLINK_TEXT} type veth peer name peer\n\
             address add 192.168.16.10/24 dev eth0\n\
             address add 2001:db8:16::10/64 dev eth0 nodad\n\
             link set eth0 up\n\
             link set peer up\n\
             route add 10.1.2.0/24 via 192.168.16.20 mtu lock {backend_v4}\n\
             route add 198.51.0.0/16 via 192.168.16.1 mtu lock {client_v4}\n\
             route add fd00:10:1:2::/64 via 2001:db8:16::20 mtu lock {backend_v6}\n\
             route add 2001:db8:51::/48 via 2001:db8:16::1 mtu lock {client_v6}\n\
             route add blackhole 10.1.2.8\n\
             route add unreachable 10.1.2.9\n\
             neighbour add 192.168.16.20 lladdr {NEXT_HOP_TEXT} dev eth0 nud permanent\n\
             neighbour add 192.168.16.1 lladdr {NEXT_HOP_TEXT} dev eth0 nud permanent\n\
             neighbour add 2001:db8:16::20 lladdr {NEXT_HOP_TEXT} dev eth0 nud permanent\n\
             neighbour add 2001:db8:16::1 lladdr {NEXT_HOP_TEXT} dev eth0 nud permanent\n"
        ))
        .unwrap();
    network.enter(test);
}
