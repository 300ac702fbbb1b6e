//! ICMP errors about translated packets: a host that gets one recognises what it sent.

use super::{
    address::{Extension, PROBLEMS},
    both_families,
    frame::{NEIGHBOUR, Packet, THIS_STATION, Transport, ethernet, framed},
    node::Verdict,
    reports::report,
    world::{Backends, Family, SERVED, in_network, node, open_transit},
};

/// Number of bytes of a packet's transport header and payload that an error quotes.
const QUOTED: [Option<usize>; 4] = [Some(8), Some(18), Some(20), None];

/// Returns the quoted part of a packet.
fn quote<A: Family>(packet: &Packet<A>, transport_bytes: Option<usize>) -> Vec<u8> {
    let mut bytes = packet.packet();
    let header = bytes.len() - packet.payload.len() - packet.transport.header_length();
    let header = match packet.transport {
        // With the chunk's header and padding.
        Transport::Sctp(_) => A::HEADER + packet.options.len() + extensions_length(packet),
        _ => header,
    };
    if let Some(length) = transport_bytes {
        bytes.truncate(header + length);
    }
    bytes
}

fn extensions_length<A>(packet: &Packet<A>) -> usize {
    packet.extensions.iter().map(|header| header.1.len()).sum()
}

/// An error that was translated: how it came, and how it is to go on.
struct Case<A> {
    /// The packet as the reporter saw it, and as its sender sent it.
    seen: Packet<A>,
    sent: Packet<A>,
    /// Sender of the error that goes on.
    from: A,
    /// Number of hops that it has made here.
    hops: u8,
}

impl<A: Family> Case<A> {
    /// Tries it with every problem and every length of a quote.
    #[track_caller]
    fn check(&self, mut run: impl FnMut(&[u8]) -> Verdict, expected: fn(&[u8]) -> Verdict) {
        let Self {
            seen,
            sent,
            from,
            hops,
        } = self;
        for problem in PROBLEMS {
            for quoted in QUOTED {
                let came = report(problem, A::ROUTER, seen.source.0, 64, &quote(seen, quoted));
                let mut original = quote(sent, quoted);
                keep_crc(&mut original, seen, sent);
                let went = report(problem, *from, sent.source.0, 64 - hops, &original);
                assert_eq!(
                    run(&framed::<A>(&came)),
                    expected(&went),
                    "{problem:?} {quoted:?} about {seen:?}"
                );
            }
        }
    }
}

/// A quoted CRC is left as it came: of a whole packet, of which a part is quoted.
fn keep_crc<A: Family>(quoted: &mut [u8], seen: &Packet<A>, sent: &Packet<A>) {
    if let Transport::Sctp(_) = sent.transport {
        let place = A::HEADER + sent.options.len() + extensions_length(sent) + 8;
        let crc = &seen.packet()[place..place + 4];
        if let Some(field) = quoted.get_mut(place..place + 4) {
            field.copy_from_slice(crc);
        }
    }
}

fn passed<A: Family>(packet: &[u8]) -> Verdict {
    Verdict::Pass(framed::<A>(packet))
}

fn forwarded<A: Family>(packet: &[u8]) -> Verdict {
    Verdict::Redirect(framed::<A>(packet))
}

fn returned<A: Family>(packet: &[u8]) -> Verdict {
    Verdict::Redirect(ethernet::<A>(THIS_STATION, NEIGHBOUR, packet))
}

/// The packet with IPv4 options and IPv6 extension headers, of which each family takes its own.
fn with_options<A: Family>(packet: &Packet<A>) -> Packet<A> {
    Packet {
        options: if A::HEADER == 20 { vec![1; 12] } else { vec![] },
        extensions: if A::HEADER == 40 {
            vec![
                Extension(0, vec![0, 0, 1, 4, 0, 0, 0, 0]),
                Extension(60, vec![0, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            ]
        } else {
            vec![]
        },
        ..packet.clone()
    }
}

both_families!(an_error_about_a_request_reaches_its_client_as_one_about_the_frontend);
fn an_error_about_a_request_reaches_its_client_as_one_about_the_frontend<A: Family>() {
    let mut node = node(Backends::Here);
    for (port, transport) in (40_000..).step_by(10).zip(SERVED) {
        for (port, frontend) in (port..).zip(A::frontends()) {
            let request = Packet::new(transport, (A::POD, port), frontend);
            node.ingress(&request.frame()).passed();
            for sent in [request.clone(), with_options(&request)] {
                let case = Case {
                    seen: sent.to((A::LOCAL, 8080)),
                    sent,
                    from: frontend.0,
                    hops: 0,
                };
                case.check(|frame| node.egress(frame), passed::<A>);
            }
        }
    }
    assert_eq!(node.counters()["icmp_error"], 4 * 3 * 2 * 5 * 4);
}

both_families!(an_error_about_a_reply_reaches_its_backend_as_one_about_the_client);
fn an_error_about_a_reply_reaches_its_backend_as_one_about_the_client<A: Family>() {
    let mut node = node(Backends::Here);
    for (port, transport) in (40_000..).step_by(10).zip(SERVED) {
        for (port, frontend) in (port..).zip(A::frontends()) {
            let request = Packet::new(transport, (A::OUTSIDER, port), frontend);
            node.ingress(&request.frame()).passed();
            let reply = request.to((A::LOCAL, 8080)).answer();
            for sent in [reply.clone(), with_options(&reply)] {
                let case = Case {
                    seen: sent.from(frontend),
                    sent,
                    from: A::ROUTER,
                    hops: 0,
                };
                case.check(|frame| node.ingress(frame), passed::<A>);
            }
        }
    }
}

both_families!(errors_about_a_connection_from_outside_are_forwarded_in_both_directions in in_network);
fn errors_about_a_connection_from_outside_are_forwarded_in_both_directions<A: Family>() {
    let mut node = node(Backends::Elsewhere);
    for (port, transport) in (40_000..).step_by(10).zip(SERVED) {
        for (port, frontend) in (port..).zip(A::frontends()) {
            let request = Packet::new(transport, (A::OUTSIDER, port), frontend);
            let at_backend = open_transit(&mut node, &request);
            let request = Packet {
                time_to_live: at_backend.time_to_live,
                ..request
            };
            let reply = at_backend.answer();
            let cases = [
                Case {
                    seen: at_backend.clone(),
                    sent: request.clone(),
                    from: frontend.0,
                    hops: 1,
                },
                Case {
                    seen: reply.from(frontend).to((A::OUTSIDER, port)),
                    sent: reply,
                    from: A::NODE,
                    hops: 1,
                },
            ];
            for case in cases {
                case.check(|frame| node.ingress(frame), forwarded::<A>);
                let case = Case {
                    seen: with_options(&case.seen),
                    sent: with_options(&case.sent),
                    ..case
                };
                case.check(|frame| node.ingress(frame), forwarded::<A>);
            }
        }
    }
}

both_families!(errors_about_a_pod_that_reaches_itself_come_back_to_it);
fn errors_about_a_pod_that_reaches_itself_come_back_to_it<A: Family>() {
    let mut node = node(Backends::Here);
    for (port, transport) in (40_000..).step_by(10).zip(SERVED) {
        for (port, frontend) in (port..).zip(A::frontends()) {
            let pod = (A::LOCAL, port);
            let request = Packet::new(transport, pod, frontend);
            let Verdict::Redirect(_) = node.ingress(&request.frame()) else {
                panic!("not returned");
            };
            let at_pod = request.from((A::HAIRPIN, port)).to((A::LOCAL, 8080));
            let reply = at_pod.answer();
            let cases = [
                Case {
                    sent: request,
                    seen: at_pod,
                    from: frontend.0,
                    hops: 1,
                },
                Case {
                    seen: reply.from(frontend).to(pod),
                    sent: reply,
                    from: A::HAIRPIN,
                    hops: 1,
                },
            ];
            for case in cases {
                case.check(|frame| node.ingress(frame), returned::<A>);
            }
        }
    }
}
