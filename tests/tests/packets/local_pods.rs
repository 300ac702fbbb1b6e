//! The clients on this node: known by ranges, by the cluster's range, or by interfaces.

use shunt_datapath::{DatapathOptions, PodDetection, PodInterfaces};

use super::{
    frame::{Packet, destination},
    needs_root,
    node::{Node, OTHER_NODE, Verdict, resync},
    world::{Backends, Family, SERVED, V4, V6, in_network, node_with, open_transit},
};

/// A test's frames come in by the loopback interface.
const HERE: &str = "lo";

/// Clients of no known range.
const ANYBODY: V4 = [172, 20, 3, 9];
const ANYBODY_V6: V6 = [0x20, 1, 0xd, 0xb8, 0, 0x72, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];

/// Returns options that make a node know its pods by `pods` alone.
fn by(pods: PodDetection) -> impl Fn(&mut DatapathOptions) {
    move |options| {
        options.pod_cidrs.clear();
        options.pods = pods.clone();
    }
}

fn interfaces(interfaces: PodInterfaces) -> PodDetection {
    PodDetection {
        cluster_cidrs: Vec::new(),
        interfaces,
    }
}

fn cluster(ranges: &[&str]) -> PodDetection {
    PodDetection {
        cluster_cidrs: ranges.iter().map(|range| range.parse().unwrap()).collect(),
        interfaces: PodInterfaces::None,
    }
}

/// The client keeps its source on the way to a backend on another node.
#[track_caller]
fn keeps_source<A: Family>(node: &mut Node, client: A, frontends: &[(A, u16)]) {
    for transport in SERVED {
        for (port, frontend) in (40_000..).zip(frontends) {
            let first = Packet::new(transport, (client, port), *frontend);
            let at_backend = first.to((A::REMOTE, 8080));
            assert_eq!(
                node.ingress(&first.frame()),
                Verdict::Pass(at_backend.frame()),
                "{transport:?} to {frontend:?}"
            );
            let reply = at_backend.answer();
            assert_eq!(
                node.egress(&reply.frame()),
                Verdict::Pass(reply.from(*frontend).frame())
            );
        }
    }
}

/// The client's connections go on from this node.
#[track_caller]
fn is_masqueraded<A: Family>(node: &mut Node, client: A, frontends: &[(A, u16)]) {
    for transport in SERVED {
        for (port, frontend) in (41_000..).zip(frontends) {
            open_transit(node, &Packet::new(transport, (client, port), *frontend));
        }
    }
}

#[test]
fn whoever_comes_by_a_pods_interface_keeps_its_source_whatever_its_address() {
    needs_root!();
    in_network(|| {
        for pods in [
            PodInterfaces::Prefix("l".to_owned()),
            PodInterfaces::Bridge(HERE.to_owned()),
        ] {
            let mut node = node_with(by(interfaces(pods)), Backends::Elsewhere);
            keeps_source(&mut node, ANYBODY, &V4::frontends());
            keeps_source(&mut node, ANYBODY_V6, &V6::frontends());
        }
    });
}

#[test]
fn whoever_comes_by_another_interface_does_not() {
    needs_root!();
    in_network(|| {
        for pods in [
            PodInterfaces::Prefix("eth".to_owned()),
            PodInterfaces::Bridge("eth0".to_owned()),
            PodInterfaces::Prefix("cali".to_owned()),
            PodInterfaces::None,
        ] {
            let mut node = node_with(by(interfaces(pods)), Backends::Elsewhere);
            is_masqueraded(&mut node, ANYBODY, &V4::frontends());
            is_masqueraded(&mut node, ANYBODY_V6, &V6::frontends());
        }
    });
}

#[test]
fn a_known_range_counts_beside_the_interfaces() {
    needs_root!();
    in_network(|| {
        let mut node = node_with(
            |options| options.pods = interfaces(PodInterfaces::Prefix("cali".to_owned())),
            Backends::Elsewhere,
        );
        keeps_source(&mut node, V4::POD, &V4::frontends());
        keeps_source(&mut node, V6::POD, &V6::frontends());
        is_masqueraded(&mut node, V4::OUTSIDER, &V4::frontends());
        is_masqueraded(&mut node, V6::OUTSIDER, &V6::frontends());
    });
}

#[test]
fn a_pod_of_the_cluster_keeps_its_source_to_a_cluster_ip_and_to_no_other_address() {
    needs_root!();
    in_network(|| {
        let pods = cluster(&["172.20.0.0/16", "2001:db8:72::/48"]);
        let mut node = node_with(by(pods), Backends::Elsewhere);
        let ([inside, outside @ ..], [inside_v6, outside_v6 @ ..]) =
            (V4::frontends(), V6::frontends());
        keeps_source(&mut node, ANYBODY, &[inside]);
        keeps_source(&mut node, ANYBODY_V6, &[inside_v6]);
        // It may be on any node, and its replies would not come back here.
        is_masqueraded(&mut node, ANYBODY, &outside);
        is_masqueraded(&mut node, ANYBODY_V6, &outside_v6);
        is_masqueraded(&mut node, V4::OUTSIDER, &V4::frontends());
        is_masqueraded(&mut node, V6::OUTSIDER, &V6::frontends());
    });
}

/// default/web at 203.0.113.7, of policy Local, with 10.1.1.3 on this node and 10.1.2.3 elsewhere.
const LOCAL: &str = r#"{"id":{"namespace":"default","name":"web"},"external_ips":["203.0.113.7"],"traffic_policy":"Local","ports":{"http":{"protocol":"TCP","port":80,"node_port":30080}},"backends":{"http":[{"ip":"10.1.1.3","port":8080,"local":true},{"ip":"10.1.2.3","port":8080}]}}"#;

#[test]
fn policy_local_takes_for_its_own_clients_whom_the_mode_tells() {
    needs_root!();
    in_network(|| {
        let by_interface = |prefix: &str| interfaces(PodInterfaces::Prefix(prefix.to_owned()));
        for (pods, serves_all) in [
            (by_interface("lo"), true),
            (by_interface("eth"), false),
            (cluster(&["172.16.0.0/12"]), true),
            (cluster(&["172.16.0.0/16"]), false),
        ] {
            let mut node = Node::with(by(pods.clone()), [resync(&[LOCAL]).as_str()]);
            let mut chosen: Vec<V4> = (1000..1100)
                .map(|port| {
                    let frontend = ([203, 0, 113, 7], 80);
                    let first = Packet::new(SERVED[0], (ANYBODY, port), frontend);
                    match node.ingress(&first.frame()) {
                        Verdict::Pass(frame) | Verdict::Redirect(frame) => destination(&frame).0,
                        Verdict::Drop => panic!("dropped"),
                    }
                })
                .collect();
            chosen.sort_unstable();
            chosen.dedup();
            let both = [V4::LOCAL, V4::REMOTE];
            let expected = if serves_all { &both[..] } else { &both[..1] };
            assert_eq!(chosen, expected, "{pods:?}");
        }
    });
}

#[test]
fn another_nodes_node_port_is_for_whom_the_mode_tells() {
    needs_root!();
    for (prefix, is_served) in [("lo", true), ("eth", false)] {
        let pods = interfaces(PodInterfaces::Prefix(prefix.to_owned()));
        let mut node = node_with(by(pods), Backends::Here);
        let first = Packet::new(SERVED[0], (ANYBODY, 1000), (OTHER_NODE, 30080));
        let expected = if is_served {
            first.to((V4::LOCAL, 8080))
        } else {
            first.clone()
        };
        let sent = node.ingress(&first.frame());
        assert_eq!(sent, Verdict::Pass(expected.frame()), "{prefix}");
    }
}
