//! SCTP: an association is one flow, and its CRC is right wherever its ports go.

use super::{
    both_families,
    frame::{ETHERNET, Packet, Transport, framed},
    needs_root,
    node::{Node, Verdict},
    world::{Backends, Family, V4, V6, cluster, in_network, node, open_transit},
};

/// Chunk types, RFC 9260 section 3.2.
const DATA: u8 = 0;
const INIT: u8 = 1;
const INIT_ACK: u8 = 2;
const SACK: u8 = 3;
const ABORT: u8 = 6;
const SHUTDOWN: u8 = 7;
const SHUTDOWN_ACK: u8 = 8;
const COOKIE_ECHO: u8 = 10;
const COOKIE_ACK: u8 = 11;
const SHUTDOWN_COMPLETE: u8 = 14;

/// An association from its begin to its end: whether the client speaks, and what.
const ASSOCIATION: [(bool, u8); 9] = [
    (true, INIT),
    (false, INIT_ACK),
    (true, COOKIE_ECHO),
    (false, COOKIE_ACK),
    (true, DATA),
    (false, SACK),
    (true, SHUTDOWN),
    (false, SHUTDOWN_ACK),
    (true, SHUTDOWN_COMPLETE),
];

fn init<A: Family>() -> Packet<A> {
    Packet::new(Transport::Sctp(INIT), (A::POD, 40_000), (A::CLUSTER_IP, 80))
}

/// Sends packets of the association with this backend.
#[track_caller]
fn talk<A: Family>(node: &mut Node, backend: A, chunks: &[(bool, u8)]) {
    for (from_client, chunk) in chunks {
        // Payloads of every length modulo 4: chunks are padded.
        for length in [4, 5, 6, 7, 333] {
            let request = init::<A>().with(Transport::Sctp(*chunk)).of_payload(length);
            let at_backend = request.to((backend, 8080));
            if *from_client {
                let sent = node.ingress(&request.frame());
                assert_eq!(sent, Verdict::Pass(at_backend.frame()), "{chunk}");
            } else {
                let (reply, restored) = (at_backend.answer(), request.answer());
                let sent = node.egress(&reply.frame());
                assert_eq!(sent, Verdict::Pass(restored.frame()), "{chunk}");
            }
        }
    }
}

#[test]
fn an_association_is_one_flow_to_one_backend() {
    needs_root!();
    let mut node = node(Backends::Here);
    one_flow::<V4>(&mut node);
    one_flow::<V6>(&mut node);
    assert_eq!(node.counters()["connection"], 2 * 8);
}

fn one_flow<A: Family>(node: &mut Node) {
    for (place, _) in ASSOCIATION.iter().enumerate().skip(1) {
        node.apply(&cluster(Backends::Here));
        let (before, after) = ASSOCIATION.split_at(place);
        talk(node, A::LOCAL, before);
        // Its backend leaves in the middle, and it stays.
        node.apply(&cluster(Backends::MovedHere));
        talk(node, A::LOCAL, after);
    }
}

#[test]
fn an_association_after_another_from_the_same_port_does_not_inherit_its_backend() {
    needs_root!();
    let mut node = node(Backends::Here);
    inherits_nothing::<V4>(&mut node);
    inherits_nothing::<V6>(&mut node);
}

fn inherits_nothing<A: Family>(node: &mut Node) {
    for end in [
        vec![(true, ABORT)],
        vec![(false, ABORT)],
        ASSOCIATION[6..].to_vec(),
    ] {
        node.apply(&cluster(Backends::Here));
        talk(node, A::LOCAL, &ASSOCIATION[..6]);
        talk(node, A::LOCAL, &end);
        node.apply(&cluster(Backends::MovedHere));
        talk(node, A::LOCAL_TOO, &ASSOCIATION);
    }
}

both_families!(only_an_init_opens_an_association);
fn only_an_init_opens_an_association<A: Family>() {
    let mut node = node(Backends::Here);
    node.ingress(&init::<A>().frame()).passed();
    node.apply(&cluster(Backends::MovedHere));
    for chunk in [DATA, COOKIE_ECHO, SACK] {
        talk(&mut node, A::LOCAL, &[(true, chunk)]);
    }
    talk(&mut node, A::LOCAL_TOO, &[(true, INIT)]);
}

#[test]
fn a_checksum_that_is_still_to_be_filled_in_stays_so() {
    needs_root!();
    unfilled::<V4>();
    unfilled::<V6>();
}

fn unfilled<A: Family>() {
    let mut node = node(Backends::Here);
    let unfilled = |packet: &Packet<A>| {
        let mut frame = packet.frame();
        frame[ETHERNET + A::HEADER + 8..][..4].fill(0);
        frame
    };
    let request = init::<A>();
    let at_backend = request.to((A::LOCAL, 8080));
    assert_eq!(
        node.ingress(&unfilled(&request)),
        Verdict::Pass(unfilled(&at_backend))
    );
    let reply = at_backend.answer();
    assert_eq!(
        node.egress(&unfilled(&reply)),
        Verdict::Pass(unfilled(&request.answer()))
    );
}

both_families!(a_checksum_is_left_as_it_is_where_no_port_changes);
fn a_checksum_is_left_as_it_is_where_no_port_changes<A: Family>() {
    let service = cluster(Backends::Here).replace(r#""port":80,"#, r#""port":8080,"#);
    let mut node = Node::new([service.as_str()]);
    let request = init::<A>().to((A::CLUSTER_IP, 8080)).of_payload(200);
    let at_backend = request.to((A::LOCAL, 8080));
    // Also if it is wrong: the backend is to see that.
    for error in [0, 0xff] {
        let with_error = |packet: &Packet<A>| {
            let mut frame = packet.frame();
            frame[ETHERNET + A::HEADER + 8] ^= error;
            frame
        };
        let sent = node.ingress(&with_error(&request));
        assert_eq!(sent, Verdict::Pass(with_error(&at_backend)));
    }
    // So fragments can be translated too.
    for (came, went) in request
        .fragments(1, 48)
        .iter()
        .zip(at_backend.fragments(1, 48))
    {
        let sent = node.ingress(&framed::<A>(came));
        assert_eq!(sent, Verdict::Pass(framed::<A>(&went)));
    }
}

both_families!(a_fragment_whose_port_would_change_is_dropped);
fn a_fragment_whose_port_would_change_is_dropped<A: Family>() {
    let mut node = node(Backends::Here);
    // The CRC's change depends on how long the whole packet is, which a fragment does not have.
    let fragments = init::<A>().of_payload(200).fragments(1, 48);
    assert_eq!(node.ingress(&framed::<A>(&fragments[0])), Verdict::Drop);
    assert_eq!(node.counters()["drop_rewrite"], 1);
}

both_families!(a_wrong_checksum_stays_wrong);
fn a_wrong_checksum_stays_wrong<A: Family>() {
    let mut node = node(Backends::Here);
    let request = init::<A>();
    let with_error = |packet: &Packet<A>| {
        let mut frame = packet.frame();
        frame[ETHERNET + A::HEADER + 9] ^= 0x5a;
        frame
    };
    assert_eq!(
        node.ingress(&with_error(&request)),
        Verdict::Pass(with_error(&request.to((A::LOCAL, 8080))))
    );
}

both_families!(an_association_from_outside_is_forwarded_from_a_port_of_this_node in in_network);
fn an_association_from_outside_is_forwarded_from_a_port_of_this_node<A: Family>() {
    let mut node = node(Backends::Elsewhere);
    let (client, frontend) = ((A::OUTSIDER, 40_000), (A::NODE, 30080));
    let first = Packet::new(Transport::Sctp(INIT), client, frontend);
    let seen_as = open_transit(&mut node, &first).source;
    for (from_client, chunk) in ASSOCIATION {
        for length in [4, 5, 6, 7, 200] {
            let request = first.with(Transport::Sctp(chunk)).of_payload(length);
            let at_backend = request.from(seen_as).to((A::REMOTE, 8080));
            let (came, went) = if from_client {
                (request, at_backend)
            } else {
                (at_backend.answer(), request.answer())
            };
            assert_eq!(
                node.ingress(&came.frame()),
                Verdict::Redirect(went.forwarded().frame()),
                "{chunk}"
            );
        }
    }
    assert_eq!(node.counters()["connection"], 1);
}
