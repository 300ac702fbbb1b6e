//! Headers between the network header and the transport header: IPv4 options and IPv6 extension headers.

use super::{
    address::Extension,
    frame::{OPENING, Packet, SCTP_INIT, Transport},
    needs_root,
    node::{Node, Verdict},
    reports::unreachable,
    world::{Backends, Family, V6, in_network, node, open_transit},
};

/// The most that is walked.
const MOST_HEADERS: usize = 8;
const MOST_BYTES: usize = 256;

/// A header of this type and length in bytes, a multiple of 8.
fn extension(kind: u8, length: usize) -> Extension {
    let mut bytes = vec![0; length];
    bytes[1] = match kind {
        AUTHENTICATION => length / 4 - 2,
        _ => length / 8 - 1,
    } as u8;
    if matches!(kind, HOP_BY_HOP | DESTINATION_OPTIONS) {
        // One option that pads.
        bytes[2..4].copy_from_slice(&[1, (length - 4).min(255) as u8]);
    }
    Extension(kind, bytes)
}

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const AUTHENTICATION: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;

/// The header of a datagram in one fragment (RFC 6946).
fn atomic_fragment() -> Extension {
    Extension(44, vec![0, 0, 0, 0, 1, 2, 3, 4])
}

fn routing(segments_left: u8) -> Extension {
    let mut header = extension(ROUTING, 24);
    header.1[2..4].copy_from_slice(&[2, segments_left]);
    header
}

fn all() -> Vec<Extension> {
    vec![
        extension(HOP_BY_HOP, 16),
        routing(0),
        extension(DESTINATION_OPTIONS, 8),
        atomic_fragment(),
        extension(AUTHENTICATION, 32),
    ]
}

/// All orders of these headers.
fn orders(headers: &[Extension]) -> Vec<Vec<Extension>> {
    if headers.is_empty() {
        return vec![vec![]];
    }
    let mut orders_of = Vec::new();
    for place in 0..headers.len() {
        let mut rest = headers.to_vec();
        let first = rest.remove(place);
        for mut order in orders(&rest) {
            order.insert(0, first.clone());
            orders_of.push(order);
        }
    }
    orders_of
}

fn request(transport: Transport, extensions: Vec<Extension>) -> Packet<V6> {
    Packet {
        extensions,
        ..Packet::new(transport, (V6::POD, 40_000), (V6::CLUSTER_IP, 80))
    }
}

/// The request is translated, and so is its answer.
#[track_caller]
fn assert_translated(node: &mut Node, request: &Packet<V6>) {
    let at_backend = request.to((V6::LOCAL, 8080));
    assert_eq!(
        node.ingress(&request.frame()),
        Verdict::Pass(at_backend.frame()),
        "{request:?}"
    );
    let reply = at_backend.answer();
    assert_eq!(
        node.egress(&reply.frame()),
        Verdict::Pass(reply.from(request.destination).frame()),
        "{reply:?}"
    );
}

#[test]
fn extension_headers_are_walked_in_any_order() {
    needs_root!();
    let mut node = node(Backends::Here);
    for order in orders(&all()) {
        for transport in OPENING {
            assert_translated(&mut node, &request(transport, order.clone()));
        }
    }
    assert_translated(&mut node, &request(Transport::Sctp(SCTP_INIT), all()));
}

#[test]
fn extension_headers_are_walked_up_to_their_bound() {
    needs_root!();
    let mut node = node(Backends::Here);
    for count in 1..=MOST_HEADERS {
        for length in [8, 16, MOST_BYTES / count / 8 * 8] {
            for kind in [HOP_BY_HOP, ROUTING, DESTINATION_OPTIONS, AUTHENTICATION] {
                let extensions = vec![extension(kind, length); count];
                for transport in OPENING {
                    assert_translated(&mut node, &request(transport, extensions.clone()));
                }
            }
        }
        let fragments = vec![atomic_fragment(); count];
        assert_translated(&mut node, &request(Transport::Udp, fragments));
    }
}

#[test]
fn a_packet_with_more_extension_headers_passes_untouched_and_is_counted() {
    needs_root!();
    let mut node = node(Backends::Here);
    let beyond = [
        vec![extension(HOP_BY_HOP, 8); MOST_HEADERS + 1],
        vec![atomic_fragment(); MOST_HEADERS + 1],
        vec![extension(DESTINATION_OPTIONS, MOST_BYTES + 8)],
        vec![
            extension(AUTHENTICATION, MOST_BYTES / 2),
            extension(ROUTING, MOST_BYTES / 2 + 8),
        ],
        vec![extension(HOP_BY_HOP, 2048)],
    ];
    for (passed, extensions) in (1..).zip(beyond) {
        let frame = request(Transport::Udp, extensions).frame();
        assert_eq!(node.ingress(&frame), Verdict::Pass(frame.clone()));
        assert_eq!(node.egress(&frame), Verdict::Pass(frame.clone()));
        let counters: Vec<_> = node.counters().into_iter().collect();
        assert_eq!(counters, [("pass_headers", 2 * passed)]);
    }
}

#[test]
fn a_packet_that_is_not_yet_where_it_goes_passes_untouched() {
    needs_root!();
    let mut node = node(Backends::Here);
    for segments_left in [1, 2, 255] {
        let extensions = vec![extension(HOP_BY_HOP, 8), routing(segments_left)];
        let frame = request(Transport::Udp, extensions).frame();
        assert_eq!(node.ingress(&frame), Verdict::Pass(frame.clone()));
        assert_eq!(node.egress(&frame), Verdict::Pass(frame.clone()));
    }
}

#[test]
fn headers_that_are_not_walked_pass_untouched() {
    needs_root!();
    let mut node = node(Backends::Here);
    // ESP, none, mobility, HIP, Shim6, reserved for experiments.
    for kind in [50, 59, 135, 139, 140, 253] {
        let frame = request(Transport::Udp, vec![extension(kind, 8)]).frame();
        assert_eq!(node.ingress(&frame), Verdict::Pass(frame.clone()));
        assert_eq!(node.egress(&frame), Verdict::Pass(frame.clone()));
    }
    assert!(node.counters().is_empty(), "{:?}", node.counters());
}

#[test]
fn extension_headers_cut_short_pass_untouched() {
    needs_root!();
    let mut node = node(Backends::Here);
    let whole = request(Transport::Udp, all());
    let headers = whole.headers_length();
    for length in 40..headers {
        let mut frame = whole.frame();
        frame.truncate(14 + length);
        // By the header no more is to come.
        frame[18..20].copy_from_slice(&((length - 40) as u16).to_be_bytes());
        assert_eq!(
            node.ingress(&frame),
            Verdict::Pass(frame.clone()),
            "{length}"
        );
    }
}

#[test]
fn a_rejection_quotes_extension_headers() {
    needs_root!();
    let mut node = node(Backends::Nowhere);
    let longest = vec![extension(DESTINATION_OPTIONS, MOST_BYTES / MOST_HEADERS); MOST_HEADERS];
    for extensions in [all(), longest] {
        for transport in OPENING {
            let packet = request(transport, extensions.clone());
            assert_eq!(
                node.rejecting_ingress(&packet.frame()),
                Verdict::Redirect(unreachable(&packet))
            );
        }
    }
}

#[test]
fn extension_headers_and_options_are_forwarded() {
    needs_root!();
    in_network(|| {
        let mut node = node(Backends::Elsewhere);
        let frontend = (V6::NODE, 30080);
        for (port, transport) in (40_000..).zip(OPENING) {
            let request = Packet {
                extensions: all(),
                ..Packet::new(transport, (V6::OUTSIDER, port), frontend)
            };
            let plain = Packet {
                extensions: vec![],
                ..request.clone()
            };
            let at_backend = open_transit(&mut node, &plain);
            let with_headers = Packet {
                extensions: all(),
                ..at_backend
            };
            assert_eq!(
                node.ingress(&request.frame()),
                Verdict::Redirect(with_headers.frame())
            );
            let reply = with_headers.answer();
            let restored = reply.from(frontend).to((V6::OUTSIDER, port)).forwarded();
            assert_eq!(
                node.ingress(&reply.frame()),
                Verdict::Redirect(restored.frame())
            );
        }
    });
}
