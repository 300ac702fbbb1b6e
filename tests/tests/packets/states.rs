//! Begins and ends of connections that are not the usual ones, in both families.

use shunt_datapath::{
    ConntrackState::{Established, SynReceived},
    Timeouts,
};

use super::{
    both_families,
    frame::{FIN_ACKED, Packet, Transport, source_of},
    needs_root,
    node::{Node, Verdict},
    world::{Backends, Family, V4, V6, cluster, in_network, node, open_transit},
};

use Transport::{TcpAck, TcpAcks, TcpFin, TcpFinAcks, TcpRst, TcpSyn, TcpSynAck, Udp};

const CLIENT: bool = true;
const BACKEND: bool = false;

/// Sends packets of one connection with this backend, each from its client or from its backend.
#[track_caller]
fn talk<A: Family>(node: &mut Node, backend: A, packets: &[(bool, Transport)]) {
    let (client, frontend) = ((A::POD, 40_000), (A::CLUSTER_IP, 80));
    for (from_client, transport) in packets {
        let request = Packet::new(*transport, client, frontend);
        let at_backend = request.to((backend, 8080));
        if *from_client {
            let sent = node.ingress(&request.frame());
            assert_eq!(sent, Verdict::Pass(at_backend.frame()), "{request:?}");
        } else {
            let reply = at_backend.to(client).from(at_backend.destination);
            let restored = reply.from(frontend);
            let sent = node.egress(&reply.frame());
            assert_eq!(sent, Verdict::Pass(restored.frame()), "{reply:?}");
        }
    }
}

both_families!(a_connection_opened_from_both_sides_is_one);
fn a_connection_opened_from_both_sides_is_one<A: Family>() {
    let mut node = node(Backends::Here);
    let packets = [
        (CLIENT, TcpSyn),
        (BACKEND, TcpSyn),
        (CLIENT, TcpSynAck),
        (BACKEND, TcpSynAck),
        (CLIENT, TcpAck),
        (BACKEND, TcpAck),
    ];
    talk(&mut node, A::LOCAL, &packets);
    assert_eq!(node.counters()["connection"], 1);
    assert_eq!(node.connections().len(), 1);
    node.pass(Timeouts::default().tcp_established - 2);
    talk(&mut node, A::LOCAL, &packets[4..]);
}

#[test]
fn a_connection_from_a_port_that_had_another_does_not_inherit_a_backend_that_is_gone() {
    needs_root!();
    let mut node = node(Backends::Here);
    inherits_nothing::<V4>(&mut node);
    inherits_nothing::<V6>(&mut node);
}

fn inherits_nothing<A: Family>(node: &mut Node) {
    let open = [(CLIENT, TcpSyn), (BACKEND, TcpSynAck), (CLIENT, TcpAck)];
    let fin_acked = (BACKEND, TcpAcks(FIN_ACKED));
    // Each with whether it proves that the connection has ended.
    let ends = [
        (vec![(CLIENT, TcpRst)], false),
        (vec![(BACKEND, TcpRst)], false),
        (
            vec![
                (CLIENT, TcpFin),
                (BACKEND, TcpFinAcks(FIN_ACKED)),
                (CLIENT, TcpAck),
            ],
            true,
        ),
        (vec![(BACKEND, TcpFin), (CLIENT, TcpFin), fin_acked], true),
        // Its end was lost, or is still to come.
        (vec![], false),
        (vec![(CLIENT, TcpFin)], false),
        (vec![(CLIENT, TcpFin), fin_acked], false),
    ];
    for (end, is_proved) in ends {
        node.apply(&cluster(Backends::Here));
        talk(node, A::LOCAL, &open);
        talk(node, A::LOCAL, &end);
        node.apply(&cluster(Backends::MovedHere));
        if !is_proved {
            // It may go on. A backend that does not answer has none.
            node.pass(5);
            talk(node, A::LOCAL, &[(CLIENT, TcpSyn)]);
            node.pass(1);
        }
        talk(node, A::LOCAL_TOO, &open);
        // What of the old one is still on its way back is not taken for the new one's.
        let late = Packet::new(TcpAck, (A::LOCAL, 8080), (A::POD, 40_000));
        let sent = node.egress(&late.frame()).passed();
        assert!(
            [late.frame(), late.from((A::CLUSTER_IP, 80)).frame()].contains(&sent),
            "to the client as it is, or as the frontend's: {end:?}"
        );
        talk(node, A::LOCAL_TOO, &open[1..]);
        // Nothing of it is left for the next one.
        talk(
            node,
            A::LOCAL_TOO,
            &[(CLIENT, TcpFin), (BACKEND, TcpFinAcks(FIN_ACKED))],
        );
    }
}

both_families!(after_a_reset_the_old_connections_segments_still_reach_their_backend);
fn after_a_reset_the_old_connections_segments_still_reach_their_backend<A: Family>() {
    let mut node = node(Backends::Here);
    talk(
        &mut node,
        A::LOCAL,
        &[
            (CLIENT, TcpSyn),
            (BACKEND, TcpSynAck),
            (CLIENT, TcpRst),
            (BACKEND, TcpAck),
            (CLIENT, TcpRst),
        ],
    );
}

both_families!(a_keep_alive_after_a_long_silence_reaches_the_same_backend);
fn a_keep_alive_after_a_long_silence_reaches_the_same_backend<A: Family>() {
    let mut node = node(Backends::Here);
    talk(
        &mut node,
        A::LOCAL,
        &[(CLIENT, TcpSyn), (BACKEND, TcpSynAck), (CLIENT, TcpAck)],
    );
    node.apply(&cluster(Backends::MovedHere));
    for speaker in [CLIENT, BACKEND, CLIENT, CLIENT] {
        node.pass(Timeouts::default().tcp_established - 2);
        talk(&mut node, A::LOCAL, &[(speaker, TcpAck)]);
    }
}

both_families!(a_udp_flow_leaves_a_backend_that_is_gone_at_once);
fn a_udp_flow_leaves_a_backend_that_is_gone_at_once<A: Family>() {
    let mut node = node(Backends::Here);
    for transport in [Udp, Transport::UdpUnsummed] {
        node.apply(&cluster(Backends::Here));
        talk(
            &mut node,
            A::LOCAL,
            &[(CLIENT, transport), (BACKEND, transport)],
        );
        node.apply(&cluster(Backends::MovedHere));
        talk(
            &mut node,
            A::LOCAL_TOO,
            &[(CLIENT, transport), (BACKEND, transport)],
        );
    }
}

both_families!(a_syn_that_met_the_clients_own_connection_goes_on_from_another_port);
fn a_syn_that_met_the_clients_own_connection_goes_on_from_another_port<A: Family>() {
    let mut node = node(Backends::Here);
    let syn = Packet::new(TcpSyn, (A::POD, 40_000), (A::CLUSTER_IP, 80));
    let at_backend = syn.to((A::LOCAL, 8080));
    assert_eq!(
        node.ingress(&syn.frame()),
        Verdict::Pass(at_backend.frame())
    );
    // The backend has a connection with these ends: a challenge ACK (RFC 5961 section 4).
    let challenge = at_backend.answer().with(TcpAck);
    assert_eq!(
        node.egress(&challenge.frame()),
        Verdict::Pass(challenge.frame()),
        "it is the client's own connection's"
    );
    let again = node.ingress(&syn.frame()).passed();
    let source = source_of::<A>(&again);
    assert_eq!(again, at_backend.from(source).frame());
    assert_ne!(source.1, 40_000, "the backend has that one");
}

both_families!(a_direct_connection_begun_anew_is_whole);
/// A connection to a backend itself, which was given another source port because one through the
/// frontend had its own, begins anew once that one is over.
fn a_direct_connection_begun_anew_is_whole<A: Family>() {
    let mut node = node(Backends::Here);
    let open = [(CLIENT, TcpSyn), (BACKEND, TcpSynAck), (CLIENT, TcpAck)];
    talk(&mut node, A::LOCAL, &open);
    let direct = Packet::new(TcpSyn, (A::POD, 40_000), (A::LOCAL, 8080));
    let moved = source_of::<A>(&node.ingress(&direct.frame()).passed());
    assert_ne!(
        moved.1, 40_000,
        "the connection through the frontend has it"
    );
    talk(&mut node, A::LOCAL, &[(CLIENT, TcpRst)]);
    // Either port will do, and the same one for all that follows.
    let again = source_of::<A>(&node.ingress(&direct.frame()).passed());
    let ack = direct.with(TcpAck);
    let sent = node.ingress(&ack.frame());
    assert_eq!(sent, Verdict::Pass(ack.from(again).frame()));
}

/// The first byte behind a SYN-ACK, and what a client may acknowledge that has got all that a backend
/// may send before it hears of it: 65,535 bytes and a FIN.
const FIRST: u32 = 77;
const LAST: u32 = FIRST + 65_536;

#[test]
fn a_client_that_acknowledges_early_data_with_the_syn_ack_is_established() {
    needs_root!();
    early_data::<V4>();
    early_data::<V6>();
    in_network(|| {
        early_data_from_elsewhere::<V4>();
        early_data_from_elsewhere::<V6>();
    });
}

/// As with TCP Fast Open, where the client's first acknowledgment waits for what the backend sends with its
/// SYN-ACK, or is lost.
fn early_data<A: Family>() {
    for (number, data) in [(FIRST + 1, TcpAck), (LAST, TcpAck), (FIRST + 1, TcpFin)] {
        let mut node = node(Backends::Here);
        let packets = [
            (CLIENT, TcpSyn),
            (BACKEND, TcpSynAck),
            (BACKEND, data),
            (CLIENT, TcpAcks(number)),
        ];
        talk(&mut node, A::LOCAL, &packets[..3]);
        assert_eq!(node.connections()[0].state, SynReceived);
        talk(&mut node, A::LOCAL, &packets[3..]);
        if data == TcpAck {
            assert_eq!(node.connections()[0].state, Established, "{number}");
            assert_eq!(node.pass(Timeouts::default().tcp_established - 2), 1);
        } else {
            assert_eq!(node.pass(Timeouts::default().tcp_closing - 2), 1);
        }
    }
}

fn early_data_from_elsewhere<A: Family>() {
    let mut node = node(Backends::Elsewhere);
    let syn = Packet::new(TcpSyn, (A::OUTSIDER, 40_000), (A::NODE, 30080));
    let at_backend = open_transit(&mut node, &syn);
    for reply in [TcpSynAck, TcpAck] {
        let reply = at_backend.answer().with(reply);
        let restored = reply.from(syn.destination).to(syn.source).forwarded();
        let sent = node.ingress(&reply.frame());
        assert_eq!(sent, Verdict::Redirect(restored.frame()));
    }
    assert_eq!(node.connections()[0].state, SynReceived);
    node.ingress(&syn.with(TcpAcks(FIRST + 23)).frame());
    assert_eq!(node.connections()[0].state, Established);
}

both_families!(a_guess_establishes_nothing);
fn a_guess_establishes_nothing<A: Family>() {
    let mut node = node(Backends::Here);
    talk(
        &mut node,
        A::LOCAL,
        &[(CLIENT, TcpSyn), (BACKEND, TcpSynAck)],
    );
    // Before any data: also if the backend answers by an ACK without data, which shows a side that is out of
    // its window what it expects.
    let challenge = Packet::new(TcpAck, (A::LOCAL, 8080), (A::POD, 40_000)).of_payload(0);
    for _ in 0..2 {
        for guess in [FIRST - 1, FIRST + 1, LAST, 0] {
            talk(&mut node, A::LOCAL, &[(CLIENT, TcpAcks(guess))]);
            assert_eq!(node.connections()[0].state, SynReceived, "{guess}");
        }
        node.egress(&challenge.frame()).passed();
    }
    talk(&mut node, A::LOCAL, &[(BACKEND, TcpAck)]);
    for guess in [FIRST - 1, LAST + 1, 0] {
        talk(&mut node, A::LOCAL, &[(CLIENT, TcpAcks(guess))]);
        assert_eq!(node.connections()[0].state, SynReceived, "{guess}");
    }
    talk(&mut node, A::LOCAL, &[(CLIENT, TcpAcks(FIRST))]);
    assert_eq!(node.connections()[0].state, Established);
}
