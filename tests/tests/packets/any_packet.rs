//! Checksums of packets of any length, addresses, ports and payloads, in both families.

use std::{cell::RefCell, net::IpAddr};

use proptest::prelude::*;

use super::{
    both_families,
    frame::{OPENING, Packet, SCTP_INIT, Transport},
    needs_root,
    node::{Node, Verdict, resync},
    world::{Backends, Family, V4, V6, node},
};

both_families!(frames_of_every_length_and_hop_limit_are_translated_right);
fn frames_of_every_length_and_hop_limit_are_translated_right<A: Family>() {
    let mut node = node(Backends::Here);
    for transport in OPENING {
        for length in (0..70).chain([1200, 1460]) {
            let request = Packet {
                time_to_live: length as u8,
                ..Packet::new(transport, (A::POD, 40_000), (A::CLUSTER_IP, 80))
            }
            .of_payload(length);
            let at_backend = request.to((A::LOCAL, 8080));
            // A short frame comes with padding behind the packet, which stays.
            let padded = |packet: &Packet<A>| {
                let mut frame = packet.frame();
                frame.resize(frame.len().max(60), 0xa5);
                frame
            };
            assert_eq!(
                node.ingress(&padded(&request)),
                Verdict::Pass(padded(&at_backend)),
                "{length}"
            );
            assert_eq!(
                node.ingress(&request.frame()),
                Verdict::Pass(at_backend.frame()),
                "{length} without padding"
            );
        }
    }
}

#[test]
fn checksums_are_right_for_any_addresses_ports_and_payloads() {
    needs_root!();
    let node = RefCell::new(Node::new([resync(&[]).as_str()]));
    // Of a service or a backend: of one host, not of its own loopback. Sums carry over at the
    // client's.
    let served = |address: &V4| (1..=223).contains(&address[0]) && address[0] != 127;
    let client = prop_oneof![any::<V4>(), Just([0xff, 0xfe, 0, 1]), Just([0, 0, 0, 1])];
    any_packet(&node, any::<V4>().prop_filter("usable", served), client);
    let served = any::<[u8; 15]>().prop_map(|rest| {
        let mut address = [0xfd; 16];
        address[1..].copy_from_slice(&rest);
        address
    });
    let client = prop_oneof![any::<V6>(), Just([0xff; 16]), Just([0; 16])];
    any_packet(&node, served, client);
}

fn any_packet<A: Family>(
    node: &RefCell<Node>,
    served: impl Strategy<Value = A> + Clone,
    client: impl Strategy<Value = A>,
) where
    IpAddr: From<A>,
{
    let transports = [OPENING.as_slice(), &[Transport::Sctp(SCTP_INIT)]].concat();
    let strategy = (
        (served.clone(), 1u16..),
        (served, 1u16..),
        (client, any::<u16>()),
        prop::collection::vec(any::<u8>(), 0..64),
        prop::sample::select(transports),
    );
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(256)
    };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let result = runner.run(&strategy, |(frontend, backend, client, payload, transport)| {
        prop_assume!(backend.0 != client.0);
        let protocol = match transport {
            Transport::Udp => "UDP",
            Transport::Sctp(_) => "SCTP",
            _ => "TCP",
        };
        let service = format!(
            r#"{{"id":{{"namespace":"n","name":"s"}},"cluster_ips":["{}"],"ports":{{"p":{{"protocol":"{protocol}","port":{}}}}},"backends":{{"p":[{{"ip":"{}","port":{},"local":true}}]}}}}"#,
            IpAddr::from(frontend.0),
            frontend.1,
            IpAddr::from(backend.0),
            backend.1,
        );
        let mut node = node.borrow_mut();
        node.apply(&resync(&[&service]));
        let request = Packet {
            payload,
            ..Packet::new(transport, client, frontend)
        };
        let at_backend = request.to(backend);
        prop_assert_eq!(
            node.ingress(&request.frame()),
            Verdict::Pass(at_backend.frame())
        );
        let reply = at_backend.answer();
        let restored = reply.from(frontend);
        prop_assert_eq!(node.egress(&reply.frame()), Verdict::Pass(restored.frame()));
        Ok(())
    });
    result.unwrap();
}
