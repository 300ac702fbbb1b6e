//! Translated fields and their places, byte for byte; IPv4.

use super::{
    frame::{OPENING, Packet, Transport},
    needs_root,
    node::{Node, OTHER_NODE, Verdict, resync, update, web},
};

const POD: ([u8; 4], u16) = ([10, 1, 1, 9], 40000);
const OUTSIDER: ([u8; 4], u16) = ([198, 51, 100, 5], 40000);
const HAIRPIN: [u8; 4] = [169, 254, 254, 1];
const BACKEND: ([u8; 4], u16) = ([10, 1, 1, 3], 8080);

#[test]
fn another_nodes_node_port_is_for_this_nodes_pods_only() {
    needs_root!();
    let mut node = Node::new([resync(&[&web(&[(3, 1)])]).as_str()]);
    let from_pod = Packet::new(Transport::TcpSyn, POD, (OTHER_NODE, 30080));
    assert_eq!(
        node.ingress(&from_pod.frame()),
        Verdict::Pass(from_pod.to(BACKEND).frame())
    );
    let from_outside = from_pod.from(OUTSIDER);
    assert_eq!(
        node.ingress(&from_outside.frame()),
        Verdict::Pass(from_outside.frame()),
        "it goes on to the node whose address it is",
    );
}

#[test]
fn ip_options_are_not_read_as_ports() {
    needs_root!();
    let mut node = Node::new([resync(&[&web(&[(3, 1)])]).as_str()]);
    for words in 1..=10 {
        for transport in OPENING {
            let request = Packet {
                // No-operation options (RFC 791) with an end of the list.
                options: [vec![1; words * 4 - 1], vec![0]].concat(),
                ..Packet::new(transport, POD, ([10, 96, 0, 1], 80))
            };
            let sent = node.ingress(&request.frame());
            assert_eq!(
                sent,
                Verdict::Pass(request.to(BACKEND).frame()),
                "{words} words"
            );
        }
    }
}

#[test]
fn the_frontends_interface_passes_the_translated_request_on_unchanged() {
    needs_root!();
    let mut node = Node::new([resync(&[&web(&[(3, 1)])]).as_str()]);
    let request = Packet::new(Transport::TcpSyn, POD, ([10, 96, 0, 1], 80));
    let sent = node.ingress(&request.frame()).passed();
    assert_eq!(
        node.egress(&sent),
        Verdict::Pass(sent.clone()),
        "on its way into the backend"
    );
    let reply = request.to(BACKEND).answer().frame();
    assert_eq!(
        node.ingress(&reply),
        Verdict::Pass(reply.clone()),
        "on its way out of it"
    );
}

#[test]
fn an_answer_to_nothing_at_the_hairpin_address_passes() {
    needs_root!();
    let mut node = Node::new([resync(&[&web(&[(3, 1)])]).as_str()]);
    let stray = Packet::new(Transport::TcpAck, ([10, 1, 1, 8], 1), (HAIRPIN, 40000)).frame();
    assert_eq!(
        node.ingress(&stray),
        Verdict::Pass(stray.clone()),
        "an answer to nothing"
    );
}

#[test]
fn a_frontend_may_have_an_address_of_the_pods_ranges() {
    needs_root!();
    let service = |address: &str| {
        let service = web(&[(3, 1)]).replace("10.96.0.1", address);
        assert!(service.contains(address), "{service}");
        service
    };
    let mut node = Node::new([resync(&[&service("10.96.0.1")]).as_str()]);
    let syn = Packet::new(Transport::TcpSyn, POD, ([10, 1, 1, 77], 80));
    assert_eq!(
        node.ingress(&syn.frame()),
        Verdict::Pass(syn.frame()),
        "a pod's"
    );
    node.apply(&update(&service("10.1.1.77")));
    assert_eq!(
        node.ingress(&syn.frame()),
        Verdict::Pass(syn.to(BACKEND).frame())
    );
    // Its connections stay when it goes, also with all that is known then.
    for event in [update(&service("10.96.0.1")), resync(&[])] {
        node.apply(&event);
        let segment = Packet::new(Transport::TcpAck, POD, ([10, 1, 1, 77], 80));
        assert_eq!(
            node.ingress(&segment.frame()),
            Verdict::Pass(segment.to(BACKEND).frame())
        );
    }
}
