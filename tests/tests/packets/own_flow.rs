//! Connections of the host's own that go out from a frontend's address and port: what answers them is not taken
//! for a new client of the frontend.

use super::{
    both_families,
    frame::{FIN_ACKED, Packet, SCTP_INIT, Transport, source_of},
    node::{Node, Verdict},
    world::{Backends, Family, in_network, node, node_with},
};

use Transport::{Sctp, TcpAck, TcpFin, TcpFinAcks, TcpRst, TcpSyn, TcpSynAck, TcpSynRst, Udp};

/// Types of SCTP chunks.
const INIT_ACK: u8 = 2;
const ABORT: u8 = 6;
const COOKIE_ECHO: u8 = 10;
const COOKIE_ACK: u8 = 11;

/// Packets of the host and then of its peer, in turn.
const EXCHANGES: [&[(Transport, Transport)]; 3] = [
    &[
        (TcpSyn, TcpSynAck),
        (TcpAck, TcpAck),
        (TcpFin, TcpFinAcks(FIN_ACKED)),
    ],
    &[(Udp, Udp), (Udp, Udp), (Udp, Udp)],
    &[
        (Sctp(SCTP_INIT), Sctp(INIT_ACK)),
        (Sctp(COOKIE_ECHO), Sctp(COOKIE_ACK)),
        (Sctp(0), Sctp(0)),
    ],
];

/// A packet of the host's from a frontend's port, to a host outside.
fn own<A: Family>(port: u16) -> Packet<A> {
    Packet::new(Udp, (A::NODE, 30080), (A::OUTSIDER, port))
}

/// A packet of the other end's.
fn from_peer<A: Family>(own: &Packet<A>, transport: Transport) -> Packet<A> {
    Packet::new(transport, own.destination, own.source)
}

#[track_caller]
fn goes_out<A: Family>(node: &mut Node, packet: &Packet<A>) {
    assert_eq!(node.egress(&packet.frame()), Verdict::Pass(packet.frame()));
}

#[track_caller]
fn comes_in<A: Family>(node: &mut Node, packet: &Packet<A>) {
    assert_eq!(node.ingress(&packet.frame()), Verdict::Pass(packet.frame()));
}

fn count(node: &Node, counter: &str) -> u64 {
    node.counters().get(counter).copied().unwrap_or(0)
}

both_families!(what_answers_the_host_goes_to_the_host in in_network);
fn what_answers_the_host_goes_to_the_host<A: Family>() {
    for backends in [Backends::Here, Backends::Elsewhere, Backends::Nowhere] {
        let mut node = node(backends);
        let mut answers = 0;
        for (exchange, port) in EXCHANGES.into_iter().zip(40_000..) {
            let own = own::<A>(port);
            for &(said, answer) in exchange {
                goes_out(&mut node, &own.with(said));
                comes_in(&mut node, &from_peer(&own, answer));
                answers += 1;
            }
        }
        assert_eq!(count(&node, "pass_own"), answers);
        assert_eq!(count(&node, "request"), 0);
    }
}

both_families!(what_answers_the_host_goes_to_the_host_with_redirect in in_network);
fn what_answers_the_host_goes_to_the_host_with_redirect<A: Family>() {
    let mut node = node_with(|options| options.redirect = true, Backends::Here);
    for (exchange, port) in EXCHANGES.into_iter().zip(40_000..) {
        let own = own::<A>(port);
        for &(said, answer) in exchange {
            goes_out(&mut node, &own.with(said));
            comes_in(&mut node, &from_peer(&own, answer));
        }
    }
    assert_eq!(count(&node, "request"), 0);
}

both_families!(an_address_of_a_service_s_that_the_host_has_is_the_host_s_too in in_network);
fn an_address_of_a_service_s_that_the_host_has_is_the_host_s_too<A: Family>() {
    let mut node = node(Backends::Elsewhere);
    let host = [super::world::ip(A::EXTERNAL_IP), super::world::ip(A::NODE)];
    node.set_host_addresses(host.into());
    for (exchange, port) in EXCHANGES.into_iter().zip(40_000..) {
        let own = own::<A>(port).from((A::EXTERNAL_IP, 80));
        for &(said, answer) in exchange {
            goes_out(&mut node, &own.with(said));
            comes_in(&mut node, &from_peer(&own, answer));
        }
    }
    assert_eq!(count(&node, "request"), 0);
}

both_families!(what_passes_through_from_a_frontend_elsewhere_is_not_the_host_s in in_network);
fn what_passes_through_from_a_frontend_elsewhere_is_not_the_host_s<A: Family>() {
    // Another node's reply to a client, by this node: the client's next packet is served here as any.
    let mut node = node(Backends::Here);
    for transport in [TcpAck, Udp] {
        let reply = own::<A>(40_000).from((A::EXTERNAL_IP, 80)).with(transport);
        goes_out(&mut node, &reply);
        assert!(node.connections().is_empty());
        let request = from_peer(&reply, transport);
        let at_backend = request.to((A::LOCAL, 8080));
        assert_eq!(
            node.ingress(&request.frame()),
            Verdict::Pass(at_backend.frame())
        );
        node.pass(1_000_000);
    }
}

both_families!(a_syn_ack_or_reset_opens_no_connection in in_network);
fn a_syn_ack_or_reset_opens_no_connection<A: Family>() {
    let mut node = node(Backends::Elsewhere);
    let answers = [TcpSynAck, TcpRst, TcpSynRst, Sctp(INIT_ACK), Sctp(ABORT)];
    for transport in answers {
        for frontend in A::frontends() {
            let packet = Packet::new(transport, (A::OUTSIDER, 40_000), frontend);
            let expected = if frontend.0 == A::CLUSTER_IP {
                Verdict::Drop
            } else {
                Verdict::Pass(packet.frame())
            };
            assert_eq!(node.ingress(&packet.frame()), expected, "{transport:?}");
        }
    }
    assert!(node.connections().is_empty());
    assert_eq!(count(&node, "pass_answer"), 2 * answers.len() as u64);
    assert_eq!(count(&node, "drop_answer"), answers.len() as u64);
}

both_families!(the_host_s_next_packet_out_is_enough in in_network);
fn the_host_s_next_packet_out_is_enough<A: Family>() {
    let mut node = node(Backends::Here);
    for (transport, port) in [TcpAck, Udp, Sctp(0)].into_iter().zip(40_000..) {
        let own = own::<A>(port).with(transport);
        let answer = from_peer(&own, transport);
        // It is older than the frontend, and the other end speaks first.
        let taken = node.ingress(&answer.frame());
        assert_eq!(taken, Verdict::Pass(answer.to((A::LOCAL, 8080)).frame()));
        for _ in 0..3 {
            goes_out(&mut node, &own);
            comes_in(&mut node, &answer);
        }
        assert_eq!(node.connections().len(), 1);
        node.pass(1_000_000);
    }
}

both_families!(a_frontend_s_reply_is_none_of_the_host_s_at_a_second_hook in in_network);
fn a_frontend_s_reply_is_none_of_the_host_s_at_a_second_hook<A: Family>() {
    let mut node = node(Backends::Here);
    for (exchange, port) in EXCHANGES.into_iter().zip(40_000..) {
        let own = own::<A>(port);
        for &(request, reply) in exchange {
            let request = from_peer(&own, request);
            let at_backend = request.to((A::LOCAL, 8080));
            let sent = node.ingress(&request.frame());
            assert_eq!(sent, Verdict::Pass(at_backend.frame()));
            let replied = own.with(reply);
            let from_backend = replied.from((A::LOCAL, 8080));
            let sent = node.egress(&from_backend.frame());
            assert_eq!(sent, Verdict::Pass(replied.frame()));
            goes_out(&mut node, &replied);
        }
        assert_eq!(node.connections().len(), 1);
        node.pass(1_000_000);
    }
    assert_eq!(count(&node, "pass_own"), 0);
}

both_families!(a_client_and_the_host_keep_their_connections_from_one_port in in_network);
fn a_client_and_the_host_keep_their_connections_from_one_port<A: Family>() {
    let mut node = node(Backends::Here);
    let own = own::<A>(40_000);
    let request = from_peer(&own, TcpSyn);
    let reply = own.from((A::LOCAL, 8080));
    let serve = |node: &mut Node, said: Transport, replied: Transport| {
        let sent = node.ingress(&request.with(said).frame());
        let at_backend = request.with(said).to((A::LOCAL, 8080));
        assert_eq!(sent, Verdict::Pass(at_backend.frame()));
        let sent = node.egress(&reply.with(replied).frame());
        assert_eq!(sent, Verdict::Pass(own.with(replied).frame()));
    };
    serve(&mut node, TcpSyn, TcpSynAck);
    serve(&mut node, TcpAck, TcpAck);
    let moved = node.egress(&own.with(TcpSyn).frame()).passed();
    let moved = own.from(source_of(&moved));
    assert_eq!(moved.source.0, A::NODE);
    assert_ne!(moved.source, own.source);
    for (said, answered) in [(TcpSyn, TcpSynAck), (TcpAck, TcpAck)] {
        let sent = node.egress(&own.with(said).frame());
        assert_eq!(sent, Verdict::Pass(moved.with(said).frame()));
        let answer = from_peer(&moved, answered);
        let restored = answer.to(own.source);
        let sent = node.ingress(&answer.frame());
        assert_eq!(sent, Verdict::Pass(restored.frame()));
        serve(&mut node, TcpAck, TcpAck);
    }
}

both_families!(after_its_end_the_other_end_is_a_client in in_network);
fn after_its_end_the_other_end_is_a_client<A: Family>() {
    let mut node = node(Backends::Here);
    let own = own::<A>(40_000);
    for &(said, answer) in EXCHANGES[0] {
        goes_out(&mut node, &own.with(said));
        comes_in(&mut node, &from_peer(&own, answer));
    }
    let request = from_peer(&own, TcpSyn);
    let at_backend = request.to((A::LOCAL, 8080));
    let sent = node.ingress(&request.frame());
    assert_eq!(sent, Verdict::Pass(at_backend.frame()));
}

both_families!(replies_of_kube_proxy_s_are_none_of_the_host_s in in_network);
fn replies_of_kube_proxy_s_are_none_of_the_host_s<A: Family>() {
    let mut node = node(Backends::Here);
    node.leave_unknown(true);
    for transport in [TcpAck, Udp] {
        goes_out(&mut node, &own::<A>(40_000).with(transport));
    }
    assert!(node.connections().is_empty());
}
