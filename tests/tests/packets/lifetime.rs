//! Lifetime of a connection, in both families.

use std::{collections::BTreeSet, net::IpAddr};

use shunt_datapath::{
    ConntrackState::{
        Assured, Closed, Closing, Established, New, Replied, SynReceived, SynSent, TimeWait,
        Unreplied,
    },
    Timeouts,
};

use super::{
    both_families,
    frame::{FIN_ACKED, Packet, Transport},
    node::{Node, Verdict},
    world::{Backends, Family, V4, V6, cluster, node},
};

const fn client<A: Family>() -> (A, u16) {
    (A::POD, 40_000)
}

const fn frontend<A: Family>() -> (A, u16) {
    (A::CLUSTER_IP, 80)
}

const fn backend<A: Family>() -> (A, u16) {
    (A::LOCAL, 8080)
}

/// Sends packets of one connection, each from the client or from the backend.
fn talk<A: Family>(node: &mut Node, packets: &[(bool, Transport)]) {
    for (from_client, transport) in packets {
        if *from_client {
            let request = Packet::new(*transport, client::<A>(), frontend::<A>());
            node.ingress(&request.frame()).passed();
        } else {
            let reply = Packet::new(*transport, backend::<A>(), client::<A>());
            let restored = Verdict::Pass(reply.from(frontend::<A>()).frame());
            assert_eq!(node.egress(&reply.frame()), restored);
        }
    }
}

both_families!(a_connection_is_forgotten_after_the_silence_of_its_state);
fn a_connection_is_forgotten_after_the_silence_of_its_state<A: Family>() {
    use Transport::{TcpAck, TcpAcks, TcpFin, TcpRst, TcpSyn, TcpSynAck, Udp};

    let timeouts = Timeouts::default();
    let (from_client, from_backend) = (true, false);
    let open = [
        (from_client, TcpSyn),
        (from_backend, TcpSynAck),
        (from_client, TcpAck),
    ];
    let then = |further: &[(bool, Transport)]| [open.as_slice(), further].concat();
    for (packets, state, timeout) in [
        (vec![(from_client, TcpSyn)], SynSent, timeouts.tcp_syn_sent),
        (
            vec![(from_client, TcpSyn), (from_backend, TcpSynAck)],
            SynReceived,
            timeouts.tcp_syn_recv,
        ),
        (vec![(from_client, TcpAck)], New, timeouts.tcp_new),
        (then(&[]), Established, timeouts.tcp_established),
        (
            vec![(from_client, TcpAck), (from_backend, TcpAck)],
            Established,
            timeouts.tcp_established,
        ),
        (
            then(&[(from_client, TcpFin)]),
            Established,
            timeouts.tcp_established,
        ),
        (
            then(&[(from_client, TcpFin), (from_backend, TcpAcks(FIN_ACKED))]),
            Closing,
            timeouts.tcp_closing,
        ),
        (
            then(&[(from_backend, TcpFin), (from_client, TcpAck)]),
            Closing,
            timeouts.tcp_closing,
        ),
        (
            then(&[
                (from_backend, TcpFin),
                (from_client, TcpFin),
                (from_backend, TcpAcks(FIN_ACKED)),
            ]),
            TimeWait,
            timeouts.tcp_time_wait,
        ),
        (
            vec![(from_client, TcpSyn), (from_backend, TcpRst)],
            Closed,
            timeouts.tcp_closed,
        ),
        (then(&[(from_client, TcpRst)]), Closed, timeouts.tcp_closed),
        (vec![(from_client, Udp)], Unreplied, timeouts.udp),
        (
            vec![(from_client, Udp), (from_backend, Udp)],
            Replied,
            timeouts.udp,
        ),
    ] {
        let mut node = node(Backends::Here);
        talk::<A>(&mut node, &packets);
        let states: Vec<_> = node.connections().iter().map(|one| one.state).collect();
        assert_eq!(states, [state], "{packets:?}");
        assert_eq!(node.pass(timeout - 1), 1, "{packets:?}");
        assert_eq!(node.pass(2), 0, "{packets:?}");
        if state != Closed {
            let late = Packet::new(TcpAck, backend::<A>(), client::<A>()).frame();
            assert_eq!(
                node.egress(&late),
                Verdict::Pass(late.clone()),
                "nobody's reply any more"
            );
        }
    }
}

both_families!(a_flow_that_has_lasted_is_remembered_longer);
fn a_flow_that_has_lasted_is_remembered_longer<A: Family>() {
    let timeouts = Timeouts::default();
    let mut node = node(Backends::Here);
    let exchange = [(true, Transport::Udp), (false, Transport::Udp)];
    talk::<A>(&mut node, &exchange);
    node.pass(3);
    talk::<A>(&mut node, &exchange);
    assert_eq!(node.connections()[0].state, Assured);
    assert_eq!(node.pass(timeouts.udp_stream - 1), 1);
    assert_eq!(node.pass(2), 0);
}

both_families!(a_packet_in_either_direction_keeps_both_entries);
fn a_packet_in_either_direction_keeps_both_entries<A: Family>() {
    let mut node = node(Backends::Here);
    let exchange = [(true, Transport::Udp), (false, Transport::Udp)];
    talk::<A>(&mut node, &exchange);
    node.pass(3);
    talk::<A>(&mut node, &exchange);
    for from_client in [true, false, false, false, true, true, true] {
        assert_eq!(node.pass(Timeouts::default().udp_stream - 1), 1);
        talk::<A>(&mut node, &[(from_client, Transport::Udp)]);
    }
}

/// The backends stay in the service and get nothing new, which others do.
fn retired() -> String {
    let with = |weight| format!(r#""port":8080,"local":true,"weight":{weight}}}"#);
    let moved: [(IpAddr, IpAddr); 2] = [
        (V4::LOCAL.into(), V4::LOCAL_TOO.into()),
        (V6::LOCAL.into(), V6::LOCAL_TOO.into()),
    ];
    let event = cluster(Backends::Here);
    moved.iter().fold(event, |event, (old, new)| {
        let (retired, next) = (with(0), with(1));
        event.replace(
            &format!(r#"{{"ip":"{old}","port":8080,"local":true}}"#),
            &format!(r#"{{"ip":"{old}",{retired},{{"ip":"{new}",{next}"#),
        )
    })
}

both_families!(a_syn_after_the_end_of_a_connection_picks_again);
fn a_syn_after_the_end_of_a_connection_picks_again<A: Family>() {
    for end in [Transport::TcpFin, Transport::TcpRst] {
        let mut node = node(Backends::Here);
        let syn = Packet::new(Transport::TcpSyn, client::<A>(), frontend::<A>());
        node.ingress(&syn.frame()).passed();
        node.apply(&retired());
        let again = Verdict::Pass(syn.to(backend::<A>()).frame());
        assert_eq!(node.ingress(&syn.frame()), again, "the same SYN again");
        node.ingress(&syn.with(end).frame()).passed();
        let moved = syn.to((A::LOCAL_TOO, 8080));
        assert_eq!(
            node.ingress(&syn.frame()),
            Verdict::Pass(moved.frame()),
            "{end:?}"
        );
    }
}

both_families!(a_large_table_is_listed_whole);
fn a_large_table_is_listed_whole<A: Family>() {
    let mut node = node(Backends::Here);
    for port in 1..=10_000 {
        let datagram = Packet::new(Transport::Udp, (A::POD, port), frontend::<A>());
        node.ingress(&datagram.frame()).passed();
    }
    let connections = node.connections();
    let ports: BTreeSet<u16> = connections.iter().map(|one| one.client.port()).collect();
    assert_eq!((connections.len(), ports.len()), (10_000, 10_000));
    assert_eq!(node.pass(31), 0);
}
