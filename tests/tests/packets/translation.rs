//! What a translated packet looks like, byte for byte.

use proptest::prelude::*;

use super::{
    frame::{OPENING, Packet, Transport},
    needs_root,
    node::{NODE, Node, OTHER_NODE, Verdict, resync, web},
};

const POD: ([u8; 4], u16) = ([10, 1, 1, 9], 40000);
const OUTSIDER: ([u8; 4], u16) = ([198, 51, 100, 5], 40000);
const HAIRPIN: [u8; 4] = [169, 254, 254, 1];
const BACKEND: ([u8; 4], u16) = ([10, 1, 1, 3], 8080);

#[test]
fn a_request_leaves_for_the_backend_and_its_reply_comes_from_the_frontend() {
    needs_root!();
    let mut node = Node::new([resync(&[&web(&[(3, 1)])]).as_str()]);
    let frontends = [([10, 96, 0, 1], 80), ([203, 0, 113, 7], 80), (NODE, 30080)];
    for transport in OPENING {
        for (port, frontend) in (POD.1..).zip(frontends) {
            for (client, _) in [POD, OUTSIDER] {
                let client = (client, port);
                let request = Packet::new(transport, client, frontend);
                let sent = node.ingress(&request.frame());
                let at_backend = request.to(BACKEND);
                assert_eq!(sent, Verdict::Pass(at_backend.frame()), "{request:?}");

                let reply = at_backend.answer();
                let restored = node.egress(&reply.frame());
                assert_eq!(
                    restored,
                    Verdict::Pass(reply.from(frontend).frame()),
                    "{reply:?}"
                );
            }
        }
    }
    let counters: Vec<_> = node.counters().into_iter().collect();
    assert_eq!(
        counters,
        [("connection", 12), ("reply", 12), ("request", 12)]
    );
}

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
fn a_udp_checksum_of_zero_stays_zero() {
    needs_root!();
    let mut node = Node::new([resync(&[&web(&[(3, 1)])]).as_str()]);
    let without_checksum = |packet: &Packet| {
        let mut frame = packet.frame();
        frame[40..42].fill(0);
        frame
    };
    let request = Packet::new(Transport::Udp, POD, ([10, 96, 0, 1], 80));
    let at_backend = request.to(BACKEND);
    assert_eq!(
        node.ingress(&without_checksum(&request)),
        Verdict::Pass(without_checksum(&at_backend)),
    );
    let reply = at_backend.answer();
    assert_eq!(
        node.egress(&without_checksum(&reply)),
        Verdict::Pass(without_checksum(&reply.from(([10, 96, 0, 1], 80)))),
    );
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
fn a_pod_reaches_itself_under_the_hairpin_address() {
    needs_root!();
    let bounced = |packet: &Packet| {
        let mut frame = packet.frame();
        let (destination, source) = frame.split_at_mut(6);
        destination.swap_with_slice(&mut source[..6]);
        Verdict::Redirect(frame)
    };
    let mut node = Node::new([resync(&[&web(&[(3, 1)])]).as_str()]);
    for transport in OPENING {
        for (port, frontend) in [(40000, ([10, 96, 0, 1], 80)), (40001, (NODE, 30080))] {
            let (pod, hairpin) = ((BACKEND.0, port), (HAIRPIN, port));
            let request = Packet::new(transport, pod, frontend);
            let at_pod = request.from(hairpin).to(BACKEND);
            assert_eq!(
                node.ingress(&request.frame()),
                bounced(&at_pod),
                "{request:?}"
            );
            let reply = at_pod.answer();
            let restored = reply.from(frontend).to(pod);
            assert_eq!(
                node.ingress(&reply.frame()),
                bounced(&restored),
                "{reply:?}"
            );
        }
    }
    let stray = Packet::new(Transport::TcpAck, ([10, 1, 1, 8], 1), (HAIRPIN, 40000)).frame();
    assert_eq!(
        node.ingress(&stray),
        Verdict::Pass(stray.clone()),
        "an answer to nothing"
    );
}

#[test]
fn checksums_are_right_for_any_addresses_ports_and_payloads() {
    needs_root!();
    let address = || {
        prop_oneof![
            any::<[u8; 4]>(),
            Just([0xff, 0xfe, 0, 1]),
            Just([0, 0, 0, 1])
        ]
    };
    let strategy = (
        (1u8..=223, 1u16.., any::<[u8; 3]>()),
        (address(), any::<u16>()),
        (1u8..=223, any::<[u8; 3]>(), 1u16..),
        prop::collection::vec(any::<u8>(), 0..64),
        prop::sample::select(OPENING.to_vec()),
    );
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(64)
    };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let result = runner.run(&strategy, |(frontend, client, backend, payload, transport)| {
        let (first, frontend_port, rest) = frontend;
        let frontend_ip = [first, rest[0], rest[1], rest[2]];
        let (first, rest, backend_port) = backend;
        let backend_ip = [first, rest[0], rest[1], rest[2]];
        prop_assume!(first != 127 && frontend_ip[0] != 127);
        let text = |ip: [u8; 4]| std::net::Ipv4Addr::from(ip).to_string();
        let protocol = if transport == Transport::Udp { "UDP" } else { "TCP" };
        let service = format!(
            r#"{{"id":{{"namespace":"n","name":"s"}},"cluster_ips":["{}"],"ports":{{"p":{{"protocol":"{protocol}","port":{frontend_port}}}}},"backends":{{"p":[{{"ip":"{}","port":{backend_port},"local":true}}]}}}}"#,
            text(frontend_ip),
            text(backend_ip),
        );
        let mut node = Node::new([resync(&[&service]).as_str()]);
        let request = Packet {
            payload,
            ..Packet::new(transport, client, (frontend_ip, frontend_port))
        };
        let at_backend = request.to((backend_ip, backend_port));
        prop_assert_eq!(node.ingress(&request.frame()), Verdict::Pass(at_backend.frame()));
        let reply = at_backend.answer();
        let restored = reply.from((frontend_ip, frontend_port));
        prop_assert_eq!(node.egress(&reply.frame()), Verdict::Pass(restored.frame()));
        Ok(())
    });
    result.unwrap();
}
