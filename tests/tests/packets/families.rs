//! The bytes of a translated packet, in both families.

use shunt_datapath::{Families, GuardOptions};

use super::{
    address::Problem,
    both_families,
    frame::{Packet, SCTP_INIT, Transport, framed, source_of},
    icmp_untouched, needs_root,
    node::{Node, Verdict},
    reports::{error, report, unreachable},
    world::{Backends, Family, SERVED, V4, V6, in_network, node, node_with, open_transit, seen},
};

pub(crate) const ONLY_V4: Families = Families {
    ipv4: true,
    ipv6: false,
};
pub(crate) const ONLY_V6: Families = Families {
    ipv4: false,
    ipv6: true,
};

both_families!(a_request_leaves_for_the_backend_and_its_reply_comes_from_the_frontend);
fn a_request_leaves_for_the_backend_and_its_reply_comes_from_the_frontend<A: Family>() {
    kept_source::<A>(node(Backends::Here));
}

/// A node that translates these alone.
fn node_of(families: Families, backends: Backends) -> Node {
    node_with(|options| options.families = families, backends)
}

#[test]
fn without_the_other_family_packets_are_translated_as_with_it() {
    needs_root!();
    kept_source::<V4>(node_of(ONLY_V4, Backends::Here));
    kept_source::<V6>(node_of(ONLY_V6, Backends::Here));
    icmp_untouched::untouched::<V4>(node_of(ONLY_V4, Backends::Here));
    icmp_untouched::untouched::<V6>(node_of(ONLY_V6, Backends::Here));
}

#[test]
fn packets_of_a_family_that_is_left_out_pass_untouched() {
    needs_root!();
    for backends in [Backends::Here, Backends::Elsewhere, Backends::Nowhere] {
        left_out::<V6>(ONLY_V4, backends);
        left_out::<V4>(ONLY_V6, backends);
    }
}

fn left_out<A: Family>(families: Families, backends: Backends) {
    let mut node = node_with(
        |options| {
            options.families = families;
            options.guard = GuardOptions {
                guard: true,
                echo: true,
            };
        },
        backends,
    );
    let mut frames = Vec::new();
    for transport in SERVED {
        for client in [A::POD, A::OUTSIDER, A::LOCAL, A::REMOTE] {
            for frontend in A::frontends() {
                let request = Packet::new(transport, (client, 40_000), frontend);
                // Another port, which the guard rejects elsewhere.
                let unknown = request.to((frontend.0, 81));
                let reply = request.to((A::LOCAL, 8080)).answer();
                frames.extend([request.frame(), unknown.frame(), reply.frame()]);
                let fragments = request.fragments(7, 8);
                frames.extend(fragments.iter().map(|fragment| framed::<A>(fragment)));
                let about = |to| {
                    framed::<A>(&report(
                        Problem::NoPort,
                        A::ROUTER,
                        to,
                        64,
                        &request.packet(),
                    ))
                };
                frames.extend([about(client), about(frontend.0)]);
            }
        }
    }
    for frame in frames {
        assert_eq!(node.ingress(&frame), Verdict::Pass(frame.clone()));
        assert_eq!(node.egress(&frame), Verdict::Pass(frame.clone()));
    }
    assert_eq!(node.counters().into_iter().collect::<Vec<_>>(), []);
}

fn kept_source<A: Family>(mut node: Node) {
    let mut flows = 0;
    for transport in SERVED {
        for frontend in A::frontends() {
            for client in [A::POD, A::OUTSIDER] {
                let client = (client, 40_000 + flows as u16);
                let request = Packet::new(transport, client, frontend);
                let at_backend = request.to((A::LOCAL, 8080));
                assert_eq!(
                    node.ingress(&request.frame()),
                    Verdict::Pass(at_backend.frame()),
                    "{request:?}"
                );
                let reply = at_backend.answer();
                assert_eq!(
                    node.egress(&reply.frame()),
                    Verdict::Pass(reply.from(frontend).frame()),
                    "{reply:?}"
                );
                // A datagram that lacks the first hook's mark is one to the backend itself.
                let is_datagram = matches!(transport, Transport::Udp | Transport::UdpUnsummed);
                let passing = [&at_backend, &reply].into_iter();
                for passing in passing.skip(usize::from(is_datagram)) {
                    let frame = passing.frame();
                    assert_eq!(node.ingress(&frame), Verdict::Pass(frame.clone()));
                }
                flows += 1;
            }
        }
    }
    let counters: Vec<_> = node.counters().into_iter().collect();
    assert_eq!(
        counters,
        [("connection", flows), ("reply", flows), ("request", flows)]
    );
}

both_families!(a_pod_reaches_itself_under_the_hairpin_address);
fn a_pod_reaches_itself_under_the_hairpin_address<A: Family>() {
    let mut node = node(Backends::Here);
    for (port, transport) in (40_000..).step_by(10).zip(SERVED) {
        for (port, frontend) in (port..).zip(A::frontends()) {
            let pod = (A::LOCAL, port);
            let request = Packet::new(transport, pod, frontend);
            let at_pod = request
                .from((A::HAIRPIN, port))
                .to((A::LOCAL, 8080))
                .forwarded();
            assert_eq!(
                node.ingress(&request.frame()),
                Verdict::Redirect(at_pod.returned_frame()),
                "{request:?}"
            );
            let reply = at_pod.answer();
            let restored = reply.from(frontend).to(pod).forwarded();
            assert_eq!(
                node.ingress(&reply.frame()),
                Verdict::Redirect(restored.returned_frame()),
                "{reply:?}"
            );
        }
    }
}

both_families!(both_directions_of_a_connection_from_outside_are_forwarded_under_this_nodes_address in in_network);
fn both_directions_of_a_connection_from_outside_are_forwarded_under_this_nodes_address<
    A: Family,
>() {
    let mut node = node(Backends::Elsewhere);
    for (port, transport) in (40_000..).step_by(10).zip(SERVED) {
        for (port, frontend) in (port..).zip(A::frontends()) {
            let client = (A::OUTSIDER, port);
            let first = Packet::new(transport, client, frontend);
            let seen_as = open_transit(&mut node, &first).source;
            assert!((1024..30_000).contains(&seen_as.1), "{seen_as:?}");
            for time_to_live in [2, 255] {
                let request = Packet {
                    time_to_live,
                    ..first.clone()
                };
                let at_backend = request.from(seen_as).to((A::REMOTE, 8080)).forwarded();
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
                // Both are marked on their way out, which a run of its own is not. Without the mark the request
                // would be one of the host's, and so would a reply that may begin a connection.
                if restored.transport != Transport::Sctp(SCTP_INIT) {
                    let sent = restored.frame();
                    let passed = Verdict::Pass(sent.clone());
                    assert_eq!(node.egress(&sent), passed, "on its way out");
                }
            }
        }
    }
}

both_families!(clients_on_this_node_keep_their_address_towards_remote_backends);
fn clients_on_this_node_keep_their_address_towards_remote_backends<A: Family>() {
    let mut node = node(Backends::Elsewhere);
    for (port, transport) in (40_000..).zip(SERVED) {
        for client in [A::POD, A::NODE] {
            for frontend in A::frontends() {
                let request = Packet::new(transport, (client, port), frontend);
                let Verdict::Pass(sent) = node.ingress(&request.frame()) else {
                    panic!("not passed: {request:?}");
                };
                // The same port towards another frontend of the backend is given another one.
                let from = source_of::<A>(&sent);
                assert_eq!(from.0, client);
                let at_backend = request.from(from).to((A::REMOTE, 8080));
                assert_eq!(sent, at_backend.frame());
                let reply = at_backend.answer();
                let restored = reply.from(frontend).to((client, port));
                assert_eq!(node.egress(&reply.frame()), Verdict::Pass(restored.frame()));
            }
        }
    }
}

both_families!(a_frontend_without_a_backend_is_unreachable);
fn a_frontend_without_a_backend_is_unreachable<A: Family>() {
    let mut node = node(Backends::Nowhere);
    for transport in SERVED {
        for frontend in A::frontends() {
            for client in [A::POD, A::OUTSIDER] {
                let packet = Packet::new(transport, (client, 40_000), frontend);
                assert_eq!(
                    node.rejecting_ingress(&packet.frame()),
                    Verdict::Redirect(unreachable(&packet)),
                    "{packet:?}"
                );
            }
        }
    }
    let counters: Vec<_> = node.counters().into_iter().collect();
    assert_eq!(counters, [("reject_no_backend", 24)]);
}

both_families!(a_packet_that_has_come_too_far_is_reported in in_network);
fn a_packet_that_has_come_too_far_is_reported<A: Family>() {
    let mut node = node(Backends::Elsewhere);
    let request = Packet::new(Transport::TcpSyn, (A::OUTSIDER, 40_000), (A::NODE, 30080));
    let reply = open_transit(&mut node, &request).answer();
    for time_to_live in [0, 1] {
        for packet in [&request, &reply] {
            let packet = Packet {
                time_to_live,
                ..packet.clone()
            };
            assert_eq!(
                node.rejecting_ingress(&packet.frame()),
                Verdict::Redirect(error(&packet, Problem::Expired))
            );
        }
    }
    assert_eq!(node.counters()["reject_expired"], 4);
}

both_families!(a_packet_longer_than_its_way_takes_is_reported in in_network);
fn a_packet_longer_than_its_way_takes_is_reported<A: Family>() {
    let mut node = node(Backends::Elsewhere);
    for transport in [Transport::TcpSyn, Transport::TcpAck, Transport::Udp] {
        let opening = match transport {
            Transport::Udp => Transport::Udp,
            _ => Transport::TcpSyn,
        };
        let first = Packet::new(opening, (A::OUTSIDER, 40_000), (A::NODE, 30080));
        let seen_as = open_transit(&mut node, &first).source;
        let request = first.with(transport);
        let reply = request.from(seen_as).to((A::REMOTE, 8080)).answer();
        for (packet, mtu) in [(request, A::BACKEND_MTU), (reply, A::CLIENT_MTU)] {
            let payload = usize::from(mtu) - packet.headers_length();
            seen::<A>(&node.ingress(&packet.of_payload(payload).frame()));
            let longer = packet.of_payload(payload + 1);
            assert_eq!(
                node.rejecting_ingress(&longer.frame()),
                Verdict::Redirect(error(&longer, Problem::TooLong { mtu })),
                "{transport:?} {mtu}"
            );
        }
    }
    assert_eq!(node.counters()["reject_too_long"], 6);
}
