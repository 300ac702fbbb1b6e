//! A next hop whose link address has changed without a word: its neighbour entry is stale, and the kernel probes it
//! once it is used.

use std::{net::IpAddr, time::Duration};

use shunt_tests::{Namespace, Target, Transport, addresses, wait_until};

use crate::{
    dsr_world::{self, A},
    dual_stack::{self, Family},
    world::REQUEST,
};

/// Time for which the way may be gone: until a packet goes through the kernel's neighbour code, it has waited and
/// probed, and a packet comes that has it send a broadcast.
const GONE: Duration = Duration::from_secs(40);
/// Time that a client waits for an answer.
const ANSWER: Duration = Duration::from_millis(300);
/// The next hop's new link address.
const NEW: &str = "02:00:00:00:77:77";

/// A host and a device of its.
#[derive(Clone, Copy)]
struct End<'a> {
    host: &'a Namespace,
    device: &'a str,
    /// Its IPv4 address; the IPv6 address has the same digits.
    address: IpAddr,
}

impl End<'_> {
    fn link_address(&self) -> String {
        let shown = self.host.query(&format!("link show {}\n", self.device));
        let shown = shown.unwrap();
        let mut words = shown.split_whitespace();
        words.find(|word| *word == "link/ether").unwrap();
        words.next().unwrap().to_owned()
    }

    /// Has this be a neighbour of `of`, with this link address in this state.
    fn is_neighbour(&self, of: &End<'_>, family: Family, link_address: &str, state: &str) {
        let (address, device) = (family.of(self.address), of.device);
        let command =
            format!("neigh replace {address} lladdr {link_address} dev {device} nud {state}\n");
        of.host.configure(&command).unwrap();
    }
}

/// Changes the link address of `hop`, of which `node` learns only if it asks, and has clients ask until they are
/// answered again.
fn recovers(
    node: End<'_>,
    hop: End<'_>,
    clients: &[&Namespace],
    target: impl Fn(Family) -> Target,
) {
    for family in ["ipv4", "ipv6"] {
        for (setting, value) in [("delay_first_probe_time", "1"), ("retrans_time_ms", "250")] {
            let setting = format!("net/{family}/neigh/{}/{setting}", node.device);
            node.host.set(&setting, value).unwrap();
        }
    }
    let ask = |client: &Namespace, family: Family| {
        let target = target(family).within(ANSWER);
        client.enter(|| target.ask(REQUEST)).ok()
    };
    for family in Family::BOTH {
        for client in clients {
            // The first one finds the next hops.
            wait_until("the first answer", GONE, || ask(client, family)).unwrap();
            ask(client, family).unwrap();
        }
    }
    let (known, own) = (hop.link_address(), node.link_address());
    let change = format!("link set {} address {NEW}\n", hop.device);
    hop.host.configure(&change).unwrap();
    for family in Family::BOTH {
        // It does not ask for the node, which would learn of it then.
        node.is_neighbour(&hop, family, &own, "permanent");
    }
    for family in Family::BOTH {
        for client in clients {
            hop.is_neighbour(&node, family, &known, "stale");
            let what = format!("{family:?} is answered again");
            wait_until(&what, GONE, || ask(client, family)).unwrap();
            ask(client, family).unwrap();
        }
    }
}

/// The router changes, behind the only uplink of a node that sends everything on to others.
/// Of TCP, a SYN that is sent again would come to TC.
fn recovers_by_uplink(forwarding: &str, xdp: &str) {
    let Some(world) = dsr_world::World::new(Transport::Udp, forwarding, xdp) else {
        return;
    };
    let node = End {
        host: world.node(A),
        device: "eth0",
        address: A.address(),
    };
    let router = End {
        host: &world.router,
        device: "node-a",
        address: A.router(),
    };
    recovers(node, router, &[&world.client], |family| {
        world.target(family)
    });
    let before = world.counted(A, "xdp");
    world.client.enter(|| {
        for family in Family::BOTH {
            world.target(family).ask(REQUEST).unwrap();
        }
    });
    let taken = world.counted(A, "xdp") - before;
    assert_eq!(taken > 0, xdp != "off", "{taken} packets by the driver");
}

#[test]
fn a_router_with_a_new_link_address_is_found_by_tc() {
    recovers_by_uplink("snat", "off");
}

#[test]
fn a_router_with_a_new_link_address_is_found_by_drivers() {
    recovers_by_uplink("snat", "native");
}

#[test]
fn a_router_with_a_new_link_address_is_found_before_the_stack() {
    recovers_by_uplink("snat", "generic");
}

#[test]
fn a_router_with_a_new_link_address_is_found_by_drivers_for_envelopes() {
    recovers_by_uplink("dsr", "native");
}

#[test]
fn a_pod_with_a_new_link_address_is_found_in_one_hop() {
    let Some(mut world) = dual_stack::world_with_flags(&["--redirect"]) else {
        return;
    };
    let service = dual_stack::service(&world, Transport::Udp, &["pod-a"]);
    world.update(&service);
    let node = End {
        host: world.sandbox.node(),
        device: "pod-a",
        address: "10.1.1.254".parse().unwrap(),
    };
    let pod = End {
        host: world.sandbox.pod("pod-a").namespace(),
        device: "eth0",
        address: addresses::POD_A,
    };
    let clients = [world.client_pod(), world.sandbox.outside()];
    recovers(node, pod, &clients, |family| {
        family.target(service.node_port())
    });
}
