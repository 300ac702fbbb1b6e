//! Connections from outside to backends on other nodes go on from this node, which forwards both
//! directions itself.

use shunt_datapath::DatapathOptions;

use super::{
    frame::{OPENING, Packet, Transport},
    needs_root,
    node::{NODE, NODE_TOO, Node, Verdict, resync, update, web},
    snat_ports::open,
    world::{in_network, seen},
};

pub(crate) type Endpoint = ([u8; 4], u16);

pub(crate) const CLIENT: Endpoint = ([198, 51, 100, 5], 40000);
pub(crate) const CLUSTER_IP: Endpoint = ([10, 96, 0, 1], 80);
pub(crate) const EXTERNAL_IP: Endpoint = ([203, 0, 113, 7], 80);
pub(crate) const NODE_PORT: Endpoint = (NODE, 30080);
pub(crate) const BACKEND: Endpoint = ([10, 1, 2, 3], 8080);

/// The service `web` with backends of weight 1 on another node.
pub(crate) fn remote(backends: &[u8]) -> String {
    let backends: Vec<_> = backends.iter().map(|last| (*last, 1)).collect();
    web(&backends)
        .replace(r#""local":true"#, r#""local":false"#)
        .replace("10.1.1.", "10.1.2.")
}

pub(crate) fn node() -> Node {
    Node::new([resync(&[&remote(&[3])]).as_str()])
}

fn counters(node: &Node) -> Vec<(&'static str, u64)> {
    node.counters().into_iter().collect()
}

#[test]
fn both_directions_are_forwarded_under_this_nodes_address() {
    needs_root!();
    in_network(|| {
        let mut node = node();
        let mut packets = 0;
        for transport in OPENING {
            for (port, frontend) in (CLIENT.1..).zip([NODE_PORT, EXTERNAL_IP, CLUSTER_IP]) {
                let client = (CLIENT.0, port);
                let first = Packet::new(transport, client, frontend);
                let seen_as = seen(&node.ingress(&first.frame()));
                assert_eq!(seen_as.0, NODE);
                assert!((1024..30_000).contains(&seen_as.1), "{seen_as:?}");
                for (time_to_live, options) in [(2, 0), (64, 4), (255, 40)] {
                    let request = Packet {
                        time_to_live,
                        options: vec![1; options],
                        ..first.clone()
                    };
                    let at_backend = request.from(seen_as).to(BACKEND).forwarded();
                    assert_eq!(
                        node.ingress(&request.frame()),
                        Verdict::Redirect(at_backend.frame())
                    );
                    let reply = Packet {
                        time_to_live,
                        ..at_backend.answer()
                    };
                    let restored = reply.from(frontend).to(client).forwarded();
                    assert_eq!(
                        node.ingress(&reply.frame()),
                        Verdict::Redirect(restored.frame())
                    );
                    // The request is marked on its way out, which a run of its own is not: without
                    // the mark it would be one of the host's.
                    let sent = restored.frame();
                    let passed = Verdict::Pass(sent.clone());
                    assert_eq!(node.egress(&sent), passed, "on its way out");
                    packets += 1;
                }
            }
        }
        assert_eq!(
            counters(&node),
            [
                ("connection", 6),
                ("reply", packets),
                ("request", packets + 6)
            ]
        );
    });
}

#[test]
fn a_reply_to_a_client_port_of_the_range_is_restored_where_it_leaves() {
    needs_root!();
    in_network(|| {
        let mut node = node();
        let client = ([10, 1, 1, 9], 20_000);
        let request = Packet::new(Transport::TcpSyn, client, CLUSTER_IP);
        node.ingress(&request.frame()).passed();
        let reply = request.to(BACKEND).answer();
        assert_eq!(
            node.ingress(&reply.frame()),
            Verdict::Pass(reply.frame()),
            "where it comes in"
        );
        assert_eq!(
            node.egress(&reply.frame()),
            Verdict::Pass(reply.from(CLUSTER_IP).frame())
        );
        let stray = reply.to((NODE, 20_000)).frame();
        assert_eq!(node.ingress(&stray), Verdict::Pass(stray.clone()));
    });
}

#[test]
fn a_packet_without_a_route_is_left_to_the_stack_which_tells_its_sender() {
    needs_root!();
    in_network(|| {
        let mut node = node();
        let nowhere = remote(&[3]).replace("10.1.2.3", "10.9.9.3");
        let services = [remote(&[8]), remote(&[9]), nowhere];
        for (port, service) in (40_000..).zip(services) {
            node.apply(&update(&service));
            let syn = Packet::new(Transport::TcpSyn, (CLIENT.0, port), NODE_PORT);
            // Half translated: the source is the client's, whom the stack's error goes to.
            let to = [[10, 1, 2, 8], [10, 1, 2, 9], [10, 9, 9, 3]][usize::from(port - 40_000)];
            let at_stack = syn.to((to, 8080));
            assert_eq!(node.ingress(&syn.frame()), Verdict::Pass(at_stack.frame()));
        }
        assert_eq!(counters(&node), [("connection", 3), ("drop_no_route", 3)]);
    });
}

#[test]
fn without_an_address_of_this_node_a_connection_is_dropped() {
    needs_root!();
    in_network(|| {
        let nobody = resync(&[&remote(&[3])]).replace(r#""192.168.16.10","#, "");
        let mut node = Node::new([nobody.as_str()]);
        let syn = Packet::new(Transport::TcpSyn, CLIENT, EXTERNAL_IP);
        assert_eq!(node.ingress(&syn.frame()), Verdict::Drop);
        assert_eq!(counters(&node), [("drop_no_node_ip", 1)]);
        node.apply(&resync(&[&remote(&[3])]));
        assert_eq!(seen::<[u8; 4]>(&node.ingress(&syn.frame())).0, NODE);
    });
}

#[test]
fn a_connection_stays_when_the_nodes_address_changes() {
    needs_root!();
    in_network(|| {
        let mut node = node();
        let port = open(&mut node, CLIENT).unwrap();
        let request = Packet::new(Transport::TcpAck, CLIENT, NODE_PORT);
        let at_backend = request.from((NODE, port)).to(BACKEND);
        let reply = at_backend.answer();
        let lower = resync(&[&remote(&[3])]).replace("16.10\"", "16.10\",\"192.168.16.5\"");
        let gone = lower.replace(r#""192.168.16.10","#, "");
        for change in [lower, gone] {
            node.apply(&change);
            assert_eq!(
                node.ingress(&request.frame()),
                Verdict::Redirect(at_backend.forwarded().frame())
            );
            let restored = reply.from(NODE_PORT).to(CLIENT).forwarded();
            assert_eq!(
                node.ingress(&reply.frame()),
                Verdict::Redirect(restored.frame())
            );
            let other = Packet::new(Transport::TcpSyn, (CLIENT.0, 1), EXTERNAL_IP);
            assert_eq!(seen::<[u8; 4]>(&node.ingress(&other.frame())).0, NODE_TOO);
        }
    });
}

#[test]
fn the_flag_says_which_address_connections_go_on_from() {
    needs_root!();
    in_network(|| {
        let given = [192, 168, 16, 77];
        let options = |options: &mut DatapathOptions| options.snat_v4 = Some(given.into());
        let mut node = Node::with(options, [resync(&[&remote(&[3])]).as_str()]);
        let request = Packet::new(Transport::Udp, CLIENT, EXTERNAL_IP);
        let seen_as = seen(&node.ingress(&request.frame()));
        assert_eq!(seen_as.0, given);
        let reply = request.from(seen_as).to(BACKEND).answer();
        let restored = reply.from(EXTERNAL_IP).to(CLIENT).forwarded();
        assert_eq!(
            node.ingress(&reply.frame()),
            Verdict::Redirect(restored.frame())
        );
    });
}
