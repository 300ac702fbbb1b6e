//! Fragments: the later ones of a datagram go where its first one went.

use super::{
    both_families,
    frame::{NEIGHBOUR, Packet, THIS_STATION, Transport, ethernet, framed, source_of},
    node::{Node, Verdict},
    world::{Backends, Family, in_network, node, node_with},
};

/// The bytes of a datagram in a fragment.
const PIECE: usize = 48;
/// Length of the datagrams' payload: a few pieces, and a rest.
const PAYLOAD: usize = 203;

/// The orders in which the fragments that follow the first may come.
const ORDERS: [[usize; 4]; 3] = [[1, 2, 3, 4], [4, 3, 2, 1], [3, 1, 4, 2]];

/// Sends the packet `came` in fragments; they are to leave as those of `went`. The library's
/// checksum of that is over the whole datagram.
#[track_caller]
fn check<A: Family>(
    mut run: impl FnMut(&[u8]) -> Verdict,
    came: &Packet<A>,
    went: &Packet<A>,
    identification: u16,
    expected: fn(&[u8]) -> Verdict,
) {
    for (number, order) in (identification..).zip(ORDERS) {
        let came = came.fragments(number, PIECE);
        let went = went.fragments(number, PIECE);
        assert_eq!(came.len(), 5);
        for place in [0].into_iter().chain(order) {
            let sent = run(&framed::<A>(&came[place]));
            assert_eq!(sent, expected(&went[place]), "{place} of {order:?}");
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

fn datagram<A: Family>(
    transport: Transport,
    client: A,
    port: u16,
    frontend: (A, u16),
) -> Packet<A> {
    // A TCP header is longer by these bytes.
    let payload = PAYLOAD + 8 - transport.header_length();
    Packet::new(transport, (client, port), frontend).of_payload(payload)
}

const TRANSPORTS: [Transport; 3] = [Transport::Udp, Transport::UdpUnsummed, Transport::TcpSyn];

both_families!(later_fragments_follow_the_first_in_both_directions);
fn later_fragments_follow_the_first_in_both_directions<A: Family>() {
    let mut node = node(Backends::Here);
    for (port, transport) in (40_000..).step_by(10).zip(TRANSPORTS) {
        for (port, frontend) in (port..).zip(A::frontends()) {
            let request = datagram(transport, A::OUTSIDER, port, frontend);
            let at_backend = request.to((A::LOCAL, 8080));
            check(
                |frame| node.ingress(frame),
                &request,
                &at_backend,
                port,
                passed::<A>,
            );
            let reply = at_backend.answer();
            let restored = reply.from(frontend);
            check(
                |frame| node.egress(frame),
                &reply,
                &restored,
                port,
                passed::<A>,
            );
        }
    }
    assert_eq!(node.counters()["fragment"], 3 * 3 * 2 * 3 * 4);
}

both_families!(fragments_from_outside_are_forwarded_in_both_directions in in_network);
fn fragments_from_outside_are_forwarded_in_both_directions<A: Family>() {
    let mut node = node(Backends::Elsewhere);
    for (port, transport) in (40_000..).step_by(10).zip(TRANSPORTS) {
        for (port, frontend) in (port..).zip(A::frontends()) {
            let client = (A::OUTSIDER, port);
            let request = datagram(transport, A::OUTSIDER, port, frontend);
            let Verdict::Redirect(sent) = node.ingress(&request.frame()) else {
                panic!("not forwarded");
            };
            let at_backend = request
                .from(source_of(&sent))
                .to((A::REMOTE, 8080))
                .forwarded();
            check(
                |frame| node.ingress(frame),
                &request,
                &at_backend,
                port,
                forwarded::<A>,
            );
            let reply = at_backend.answer();
            let restored = reply.from(frontend).to(client).forwarded();
            check(
                |frame| node.ingress(frame),
                &reply,
                &restored,
                port,
                forwarded::<A>,
            );
        }
    }
}

both_families!(fragments_of_a_pod_that_reaches_itself_come_back_to_it);
fn fragments_of_a_pod_that_reaches_itself_come_back_to_it<A: Family>() {
    let mut node = node(Backends::Here);
    for (port, transport) in (40_000..).zip(TRANSPORTS) {
        let frontend = (A::CLUSTER_IP, 80);
        let request = datagram(transport, A::LOCAL, port, frontend);
        let at_pod = request
            .from((A::HAIRPIN, port))
            .to((A::LOCAL, 8080))
            .forwarded();
        check(
            |frame| node.ingress(frame),
            &request,
            &at_pod,
            port,
            returned::<A>,
        );
        let reply = at_pod.answer();
        let restored = reply.from(frontend).to((A::LOCAL, port)).forwarded();
        check(
            |frame| node.ingress(frame),
            &reply,
            &restored,
            port,
            returned::<A>,
        );
    }
}

/// Sends a fragment that nothing is known of.
#[track_caller]
fn assert_unknown<A: Family>(node: &mut Node, packet: &[u8], what: &str) {
    let before = passed_fragments(node);
    let frame = framed::<A>(packet);
    assert_eq!(node.ingress(&frame), Verdict::Pass(frame.clone()), "{what}");
    assert_eq!(passed_fragments(node), before + 1, "{what} is counted");
    assert_eq!(node.egress(&frame), Verdict::Pass(frame.clone()), "{what}");
}

fn passed_fragments(node: &Node) -> u64 {
    node.counters().get("pass_fragment").copied().unwrap_or(0)
}

both_families!(a_later_fragment_of_no_known_datagram_passes_untouched);
fn a_later_fragment_of_no_known_datagram_passes_untouched<A: Family>() {
    let mut node = node(Backends::Here);
    let frontend = (A::CLUSTER_IP, 80);
    let request = datagram(Transport::Udp, A::POD, 40_000, frontend);
    let fragments = request.fragments(1, PIECE);
    assert_unknown::<A>(&mut node, &fragments[1], "one before its first");
    node.ingress(&framed::<A>(&fragments[0])).passed();
    let translated = request.to((A::LOCAL, 8080)).fragments(1, PIECE);
    assert_eq!(
        node.ingress(&framed::<A>(&fragments[1])),
        passed::<A>(&translated[1])
    );
    let others = [
        (request.fragments(2, PIECE), "another datagram's"),
        (
            request.from((A::OUTSIDER, 40_000)).fragments(1, PIECE),
            "another sender's",
        ),
        (
            request.to((A::EXTERNAL_IP, 80)).fragments(1, PIECE),
            "another receiver's",
        ),
    ];
    for (fragments, what) in others {
        assert_unknown::<A>(&mut node, &fragments[1], what);
    }
    // A first fragment that is not ours takes none with it.
    let foreign = request.to((A::CLUSTER_IP, 81)).fragments(9, PIECE);
    let frame = framed::<A>(&foreign[0]);
    assert_eq!(node.ingress(&frame), Verdict::Pass(frame.clone()));
    assert_unknown::<A>(&mut node, &foreign[1], "one after a first that is not ours");
}

both_families!(a_datagram_is_forgotten_after_30_seconds);
fn a_datagram_is_forgotten_after_30_seconds<A: Family>() {
    let mut node = node(Backends::Here);
    let request = datagram(Transport::Udp, A::POD, 40_000, (A::CLUSTER_IP, 80));
    let (came, went) = (
        request.fragments(1, PIECE),
        request.to((A::LOCAL, 8080)).fragments(1, PIECE),
    );
    node.ingress(&framed::<A>(&came[0])).passed();
    node.pass(30);
    assert_eq!(node.ingress(&framed::<A>(&came[1])), passed::<A>(&went[1]));
    node.pass(1);
    assert_unknown::<A>(&mut node, &came[2], "one that is too late");
    node.ingress(&framed::<A>(&came[0])).passed();
    assert_eq!(node.ingress(&framed::<A>(&came[2])), passed::<A>(&went[2]));
}

both_families!(the_table_of_datagrams_has_a_bound_and_the_last_are_in_it);
fn the_table_of_datagrams_has_a_bound_and_the_last_are_in_it<A: Family>() {
    const ROOM: u32 = 64;
    const DATAGRAMS: u16 = 1000;

    let mut node = node_with(|options| options.sizes.fragments = ROOM, Backends::Here);
    let request = datagram(Transport::Udp, A::POD, 40_000, (A::CLUSTER_IP, 80));
    for number in 0..DATAGRAMS {
        let fragments = request.fragments(number, PIECE);
        node.ingress(&framed::<A>(&fragments[0])).passed();
    }
    let mut followed = Vec::new();
    for number in 0..DATAGRAMS {
        let frame = framed::<A>(&request.fragments(number, PIECE)[1]);
        if node.ingress(&frame) != Verdict::Pass(frame) {
            followed.push(number);
        }
    }
    assert!(followed.len() <= ROOM as usize, "{followed:?}");
    assert_eq!(followed.last(), Some(&(DATAGRAMS - 1)), "the last");
}
