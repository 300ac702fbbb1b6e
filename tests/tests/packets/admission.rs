//! Packets that a router does not take on, and sources that must get no answer.

use std::net::Ipv6Addr;

use super::{
    address::Problem,
    both_families,
    frame::{NEIGHBOUR, OPENING, Packet, THIS_STATION, Transport, ethernet, framed},
    needs_root,
    node::{Node, Verdict},
    reports::error,
    world::{Backends, Family, V4, V6, in_network, node, open_transit},
};

/// Sources from which the kernel forwards nothing (`ip_route_input_slow`, `ip6_rcv_core`,
/// `ip6_forward`).
trait Martian: Family {
    fn martians() -> Vec<Self>;
    /// Sources that must get no answer, but that a router forwards.
    fn unanswered() -> Vec<Self>;
}

impl Martian for V4 {
    fn martians() -> Vec<Self> {
        vec![
            [127, 0, 0, 1],
            [127, 255, 255, 254],
            [0, 0, 0, 0],
            [0, 1, 2, 3],
            [224, 0, 0, 1],
            [239, 255, 255, 255],
            [255, 255, 255, 255],
        ]
    }

    fn unanswered() -> Vec<Self> {
        vec![[240, 0, 0, 1], [255, 255, 255, 254]]
    }
}

impl Martian for V6 {
    fn martians() -> Vec<Self> {
        let addresses = [
            "::",
            "::1",
            "ff02::1",
            "ff0e::7",
            "fe80::1",
            "febf::1",
            "::ffff:127.0.0.1",
        ];
        addresses
            .map(|address| address.parse::<Ipv6Addr>().unwrap().octets())
            .into()
    }

    fn unanswered() -> Vec<Self> {
        vec![]
    }
}

both_families!(what_no_router_takes_on_by_its_source_is_dropped_before_anything_is_done_for_it in in_network);
fn what_no_router_takes_on_by_its_source_is_dropped_before_anything_is_done_for_it<A: Martian>() {
    for backends in [Backends::Elsewhere, Backends::Nowhere] {
        let mut node = node(backends);
        let mut dropped = 0;
        for source in A::martians() {
            for transport in OPENING {
                for frontend in A::frontends() {
                    let packet = Packet::new(transport, (source, 40_000), frontend);
                    assert_eq!(
                        node.ingress(&packet.frame()),
                        Verdict::Drop,
                        "{backends:?} {packet:?}"
                    );
                    dropped += 1;
                }
            }
        }
        let counters: Vec<_> = node.counters().into_iter().collect();
        assert_eq!(counters, [("drop_martian", dropped)]);
        assert!(node.connections().is_empty());
    }
}

/// Loose and strict source routing by one station, at the begin of the options and behind others.
fn source_routes() -> Vec<Vec<u8>> {
    [131, 137]
        .into_iter()
        .flat_map(|kind| {
            let route = [kind, 7, 4, 192, 168, 16, 20];
            [
                [&route[..], &[0]].concat(),
                [&[1], &route[..]].concat(),
                [&[7, 7, 4, 0, 0, 0, 0][..], &route, &[1, 1]].concat(),
            ]
        })
        .collect()
}

#[test]
fn a_packet_that_chooses_its_way_is_dropped_before_anything_is_done_for_it() {
    needs_root!();
    in_network(|| {
        for backends in [Backends::Elsewhere, Backends::Nowhere] {
            let mut node = node(backends);
            let mut dropped = 0;
            for options in source_routes() {
                let packet = Packet {
                    options,
                    ..Packet::new(Transport::Udp, (V4::OUTSIDER, 40_000), (V4::NODE, 30080))
                };
                assert_eq!(node.ingress(&packet.frame()), Verdict::Drop, "{packet:?}");
                dropped += 1;
            }
            let counters: Vec<_> = node.counters().into_iter().collect();
            assert_eq!(counters, [("drop_source_route", dropped)]);
            assert!(node.connections().is_empty());
        }
    });
}

#[test]
fn a_source_route_to_a_backend_here_is_judged_by_the_stack() {
    needs_root!();
    let mut node = node(Backends::Here);
    for options in source_routes() {
        let packet = Packet {
            options,
            ..Packet::new(Transport::Udp, (V4::POD, 40_000), (V4::CLUSTER_IP, 80))
        };
        let at_backend = packet.to((V4::LOCAL, 8080));
        assert_eq!(
            node.ingress(&packet.frame()),
            Verdict::Pass(at_backend.frame())
        );
    }
}

#[test]
fn a_packet_that_has_come_too_far_takes_no_port() {
    needs_root!();
    in_network(|| {
        expired::<V4>(Backends::Elsewhere, V4::OUTSIDER);
        expired::<V6>(Backends::Elsewhere, V6::OUTSIDER);
        expired::<V4>(Backends::Here, V4::LOCAL);
        expired::<V6>(Backends::Here, V6::LOCAL);
    });
}

fn expired<A: Family>(backends: Backends, client: A) {
    let mut node = node(backends);
    for transport in OPENING {
        for time_to_live in [0, 1] {
            let packet = Packet {
                time_to_live,
                ..Packet::new(transport, (client, 40_000), (A::NODE, 30080))
            };
            assert_eq!(
                node.rejecting_ingress(&packet.frame()),
                Verdict::Redirect(error(&packet, Problem::Expired))
            );
        }
    }
    let counters: Vec<_> = node.counters().into_iter().collect();
    assert_eq!(counters, [("reject_expired", 4)], "and no connection");
    assert!(node.connections().is_empty());
}

both_families!(a_pod_that_reaches_itself_is_a_hop_away);
fn a_pod_that_reaches_itself_is_a_hop_away<A: Family>() {
    let mut node = node(Backends::Here);
    let request = Packet::new(Transport::Udp, (A::LOCAL, 40_000), (A::CLUSTER_IP, 80));
    let at_pod = request.from((A::HAIRPIN, 40_000)).to((A::LOCAL, 8080));
    for time_to_live in [2, 64, 255] {
        for (came, goes) in [
            (request.clone(), at_pod.clone()),
            (
                at_pod.answer(),
                at_pod.answer().from((A::CLUSTER_IP, 80)).to(request.source),
            ),
        ] {
            let with = |packet: Packet<A>| Packet {
                time_to_live,
                ..packet
            };
            assert_eq!(
                node.ingress(&with(came).frame()),
                Verdict::Redirect(with(goes).forwarded().returned_frame())
            );
        }
    }
    for came in [request, at_pod.answer()] {
        let last = Packet {
            time_to_live: 1,
            ..came
        };
        assert_eq!(
            node.rejecting_ingress(&last.frame()),
            Verdict::Redirect(error(&last, Problem::Expired))
        );
    }
}

both_families!(a_client_of_elsewhere_that_is_its_own_backend_sees_this_node in in_network);
fn a_client_of_elsewhere_that_is_its_own_backend_sees_this_node<A: Family>() {
    let mut node = node(Backends::Elsewhere);
    for (port, transport) in (40_000..).zip(OPENING) {
        for (port, frontend) in (port..).step_by(10).zip(A::frontends()) {
            let client = (A::REMOTE, port);
            let request = Packet::new(transport, client, frontend);
            let reply = open_transit(&mut node, &request).answer();
            let restored = reply.from(frontend).to(client).forwarded();
            assert_eq!(
                node.ingress(&reply.frame()),
                Verdict::Redirect(restored.frame())
            );
        }
    }
}

/// The packet is dropped, where one of a usual sender is answered.
#[track_caller]
fn assert_silence(node: &mut Node, frame: &[u8], what: &str) {
    assert_eq!(node.rejecting_ingress(frame), Verdict::Drop, "{what}");
}

both_families!(nobody_is_told_where_no_single_host_has_sent);
fn nobody_is_told_where_no_single_host_has_sent<A: Martian>() {
    let mut node = node(Backends::Nowhere);
    for transport in OPENING {
        let packet = Packet::new(transport, (A::OUTSIDER, 40_000), (A::NODE, 30080));
        let Verdict::Redirect(_) = node.rejecting_ingress(&packet.frame()) else {
            panic!("a usual sender is told");
        };
        for source in A::martians().into_iter().chain(A::unanswered()) {
            let frame = packet.from((source, 40_000)).frame();
            assert_silence(&mut node, &frame, &format!("from {source:?}"));
        }
        let bytes = packet.packet();
        let group = [0x33, 0x33, 0, 0, 0, 1];
        for (from, to, what) in [
            (NEIGHBOUR, [0xff; 6], "a broadcast"),
            (NEIGHBOUR, group, "a multicast"),
            ([0xff; 6], THIS_STATION, "from everybody"),
            (group, THIS_STATION, "from a group"),
        ] {
            assert_silence(&mut node, &ethernet::<A>(from, to, &bytes), what);
        }
    }
}

#[test]
fn nobody_is_told_about_a_broken_header() {
    needs_root!();
    let mut node = node(Backends::Nowhere);
    for options in [vec![], vec![1; 4], vec![1; 40]] {
        let packet = Packet {
            options,
            ..Packet::new(Transport::Udp, (V4::OUTSIDER, 40_000), (V4::NODE, 30080))
        };
        let Verdict::Redirect(_) = node.rejecting_ingress(&packet.frame()) else {
            panic!("a usual sender is told");
        };
        for bit in 0..16 {
            let mut bytes = packet.packet();
            bytes[10 + bit / 8] ^= 1 << (bit % 8);
            let frame = framed::<V4>(&bytes);
            assert_silence(&mut node, &frame, &format!("bit {bit} of the checksum"));
        }
    }
}
