//! Path-MTU discovery through translation: a link on the way takes less than the ends' links do,
//! and the host before it reports that to the sender, which knows only the frontend.

use std::net::IpAddr;

use shunt_tests::{Namespace, Target, Transport, addresses};

use crate::{
    dual_stack::{Family, service, world},
    world::World,
};

/// The least that an IPv6 link may have (RFC 8200 section 5).
const SMALL: u32 = 1280;

/// Several congestion windows.
const BYTES: u64 = (4 << 20) + 321;

/// The MSS that the ends of a connection announce all the same: they take whole Ethernet frames. A
/// smaller one in the handshake would make discovery unnecessary.
const ADVERTISED: u32 = 1440;

/// One of the world's hosts.
type Host = fn(&World) -> &Namespace;

/// A link with a small MTU.
struct Narrow {
    /// Its two ends.
    ends: [(Host, &'static str); 2],
    /// The side whose packets do not fit there, and that gets an error on their way.
    sender: Sender,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sender {
    Client,
    Backend,
}

#[test]
fn transfers_complete_over_a_narrow_link_behind_the_other_node() {
    check(&Narrow {
        ends: [
            (|world| world.sandbox.node2(), "pod-d"),
            (|world| world.sandbox.pod("pod-d").namespace(), "eth0"),
        ],
        sender: Sender::Client,
    });
}

#[test]
fn transfers_complete_over_a_narrow_link_between_the_nodes() {
    check(&Narrow {
        ends: [
            (|world| world.sandbox.node(), "eth1"),
            (|world| world.sandbox.node2(), "eth0"),
        ],
        sender: Sender::Client,
    });
}

#[test]
fn transfers_complete_over_a_narrow_link_towards_the_client() {
    check(&Narrow {
        ends: [
            (|world| world.sandbox.node(), "eth0"),
            (|world| world.sandbox.outside(), "eth0"),
        ],
        sender: Sender::Backend,
    });
}

/// Sends many bytes both ways through every kind of frontend to a pod of the other node, and looks
/// whether the sender has learnt of the narrow link.
fn check(narrow: &Narrow) {
    let Some(mut world) = world() else {
        return;
    };
    let service = service(&world, Transport::Tcp, &["pod-d"]);
    world.add(&service);
    for (host, interface) in narrow.ends {
        host(&world)
            .configure(&format!("link set {interface} mtu {SMALL}\n"))
            .unwrap();
    }
    let outside = (world.sandbox.outside(), addresses::OUTSIDE);
    let pod = (world.client_pod(), addresses::POD_C);
    let ways = [
        (pod, service.cluster_ip()),
        (pod, service.node_port()),
        (pod, service.external_ip()),
        (outside, service.node_port()),
        (outside, service.external_ip()),
    ];
    let backend = world.sandbox.pod("pod-d").namespace();
    advertise(backend, "10.1.2.254");
    advertise(world.sandbox.outside(), "198.51.100.1");
    for ((client, address), target) in ways {
        // The narrow link is not on every client's way.
        if narrow.sender == Sender::Backend && address == addresses::POD_C {
            continue;
        }
        for family in Family::BOTH {
            let target = family.target(target);
            for end in [client, backend] {
                end.configure("route flush cache\n").unwrap();
            }
            transfer(client, target, BYTES);
            let (sender, receiver) = match narrow.sender {
                Sender::Client => (client, target.address().ip()),
                // The client that the backend sees: this node, if the client is outside.
                Sender::Backend => (backend, family.of(addresses::NODE)),
            };
            assert_eq!(
                learnt(sender, receiver),
                Some(SMALL),
                "what the {:?} knows of its way to {receiver} after {target:?}",
                narrow.sender
            );
        }
    }
}

/// Has a host announce on every connection of its own that it takes whole frames.
fn advertise(host: &Namespace, gateway: &str) {
    let gateway: IpAddr = gateway.parse().unwrap();
    let gateway_v6 = addresses::v6(gateway);
    host.configure(&format!(
        "route replace default via {gateway} dev eth0 advmss {ADVERTISED}\n\
         route replace ::/0 via {gateway_v6} dev eth0 advmss {ADVERTISED}\n"
    ))
    .unwrap();
}

/// Sends so many bytes each way over a connection; all must arrive unchanged.
pub(crate) fn transfer(client: &Namespace, target: Target, bytes: u64) {
    client.enter(|| {
        let mut connection = target.connect().unwrap();
        for outcome in [connection.send(bytes), connection.fetch(bytes)] {
            outcome.unwrap_or_else(|failure| panic!("{target:?}: {failure}"));
        }
    });
}

/// The MTU that a host has learnt its way to `address` has, if it has.
fn learnt(host: &Namespace, address: IpAddr) -> Option<u32> {
    let output = host.query(&format!("route get {address}\n")).unwrap();
    let mut words = output.split_whitespace();
    words.find(|word| *word == "mtu")?;
    words.next()?.parse().ok()
}
