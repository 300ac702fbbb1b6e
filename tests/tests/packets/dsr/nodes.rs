//! Outcome of packets at the first node, and at the backend's.

use std::net::IpAddr;

use super::world::{OTHER_V4, OTHER_V6, counted, dsr, envelope, in_both, node};
use crate::{
    address::PROBLEMS,
    both_families,
    frame::{Packet, Transport, destination_of, framed, source_of},
    node::{Node, Verdict},
    reports::report,
    world::{Backends, Family, SERVED, cluster, open_transit},
};

/// The longest packet on the way to the other node.
const MTU: usize = 1500;

both_families!(each_packet_of_a_client_goes_to_its_backends_node_unchanged(OTHER_V4; OTHER_V6) in in_both);
fn each_packet_of_a_client_goes_to_its_backends_node_unchanged<A: Family>(other: A)
where
    IpAddr: From<A>,
{
    let mut node = node(Backends::Elsewhere);
    for (port, transport) in (40_000..).zip(SERVED.into_iter().chain([Transport::TcpAck])) {
        let packet = Packet::new(transport, (A::OUTSIDER, port), (A::EXTERNAL_IP, 80));
        let wrapped = envelope(A::NODE, other, &packet.forwarded().packet());
        for leaves_unknown in [false, true] {
            node.leave_unknown(leaves_unknown);
            let sent = node.ingress(&packet.frame());
            assert_eq!(sent, Verdict::Redirect(wrapped.clone()), "{transport:?}");
        }
    }
    assert_eq!(node.connections().len(), 0, "it sees one direction");
    assert_eq!(counted(&node, "wrapped"), 2 * (SERVED.len() as u64 + 1));
}

both_families!(the_backends_node_takes_packets_out_and_answers_from_the_frontend(OTHER_V4; OTHER_V6) in in_both);
fn the_backends_node_takes_packets_out_and_answers_from_the_frontend<A: Family>(other: A)
where
    IpAddr: From<A>,
{
    let mut node = node(Backends::Here);
    for (port, transport) in (40_000..).zip(SERVED) {
        let client = (A::OUTSIDER, port);
        // The NodePort of the first node is this node's too.
        for frontend in [(A::EXTERNAL_IP, 80), (A::NODE, 30080), (other, 30080)] {
            let packet = Packet::new(transport, client, frontend);
            let frame = envelope(other, A::NODE, &packet.packet());
            let at_backend = packet.to((A::LOCAL, 8080));
            // As a segment behind the first, too.
            for _ in 0..2 {
                let passed = node.ingress(&frame);
                assert_eq!(passed, Verdict::Pass(at_backend.frame()), "{transport:?}");
            }
            let reply = at_backend.answer();
            let restored = reply.from(frontend).frame();
            assert_eq!(node.egress(&reply.frame()), Verdict::Pass(restored));
            // Another node's address may lead here to another frontend of the same tuple.
            node.pass(1_000_000);
        }
    }
    assert_eq!(counted(&node, "unwrapped"), 6 * SERVED.len() as u64);
}

both_families!(any_other_envelope_passes_untouched(OTHER_V4; OTHER_V6) in in_both);
fn any_other_envelope_passes_untouched<A: Family>(other: A)
where
    IpAddr: From<A>,
{
    let mut node = node(Backends::Here);
    let client = (A::OUTSIDER, 40_000);
    let wanted = Packet::new(Transport::TcpSyn, client, (A::EXTERNAL_IP, 80)).packet();
    let elsewhere = Packet::new(Transport::TcpSyn, client, (A::EXTERNAL_IP, 81)).packet();
    let inside = Packet::new(Transport::TcpSyn, client, (A::CLUSTER_IP, 80)).packet();
    for frame in [
        envelope(A::OUTSIDER, A::NODE, &wanted),
        envelope(A::LOCAL, A::NODE, &wanted),
        envelope(other, A::EXTERNAL_IP, &wanted),
        envelope(other, A::OUTSIDER, &wanted),
        envelope(other, A::NODE, &elsewhere),
        envelope(other, A::NODE, &inside),
        envelope(other, A::NODE, &wanted[..wanted.len() - 30]),
    ] {
        assert_eq!(node.ingress(&frame), Verdict::Pass(frame));
    }
    assert_eq!(counted(&node, "unwrapped"), 0);
    // The mode alone makes it one.
    node.apply(&dsr(Backends::Here).replace(r#""dsr""#, r#""snat""#));
    let frame = envelope(other, A::NODE, &wanted);
    assert_eq!(node.ingress(&frame), Verdict::Pass(frame));
}

both_families!(a_packet_from_an_envelope_is_never_in_another_one(OTHER_V4; OTHER_V6) in in_both);
fn a_packet_from_an_envelope_is_never_in_another_one<A: Family>(other: A)
where
    IpAddr: From<A>,
{
    let mut node = node(Backends::Elsewhere);
    let packet = Packet::new(
        Transport::TcpSyn,
        (A::OUTSIDER, 40_000),
        (A::EXTERNAL_IP, 80),
    );
    let frame = envelope(other, A::NODE, &packet.packet());
    let Verdict::Redirect(sent) = node.ingress(&frame) else {
        panic!("not forwarded");
    };
    let seen_as = source_of::<A>(&sent);
    assert_eq!(seen_as.0, A::NODE, "by SNAT");
    let at_backend = packet.from(seen_as).to((A::REMOTE, 8080)).forwarded();
    assert_eq!(sent, at_backend.frame());
}

both_families!(where_the_node_of_a_backend_is_unknown_its_packets_go_on_by_snat in in_both);
fn where_the_node_of_a_backend_is_unknown_its_packets_go_on_by_snat<A: Family>() {
    let resync = dsr(Backends::Elsewhere).replace(r#""node":"b""#, r#""node":"c""#);
    let mut node = Node::new([resync.as_str()]);
    let packet = Packet::new(
        Transport::TcpSyn,
        (A::OUTSIDER, 40_000),
        (A::EXTERNAL_IP, 80),
    );
    // With nothing in the table, and nothing looked for.
    node.scan();
    open_transit(&mut node, &packet);
    // Once the node is known, new flows go the other way, and old ones stay.
    let known = r#"{"event":"UpdateNodes","nodes":{"c":["192.168.16.20","2001:db8:16::20"]}}"#;
    node.apply(known);
    let other = Packet::new(
        Transport::TcpSyn,
        (A::OUTSIDER, 40_001),
        (A::EXTERNAL_IP, 80),
    );
    node.ingress(&other.frame());
    assert_eq!(counted(&node, "wrapped"), 1);
    let next = packet.with(Transport::TcpAck);
    for _ in 0..2 {
        node.ingress(&next.frame());
        assert_eq!(counted(&node, "wrapped"), 1);
        // It is found there.
        node.scan();
    }
}

both_families!(a_connection_that_begins_anew_has_nothing_of_the_one_before_the_mode in in_both);
fn a_connection_that_begins_anew_has_nothing_of_the_one_before_the_mode<A: Family>() {
    let served = dsr(Backends::Elsewhere);
    let snat = served.replace(r#""forwarding":"dsr","#, "");
    let mut node = Node::new([snat.as_str()]);
    let packet = Packet::new(
        Transport::TcpSyn,
        (A::OUTSIDER, 40_000),
        (A::EXTERNAL_IP, 80),
    );
    open_transit(&mut node, &packet);
    node.ingress(&packet.with(Transport::TcpRst).frame());
    node.apply(&served);
    for (transport, wrapped) in [(Transport::TcpSyn, 1), (Transport::TcpAck, 2)] {
        node.ingress(&packet.with(transport).frame());
        assert_eq!(counted(&node, "wrapped"), wrapped, "{transport:?}");
    }
    assert!(node.connections().is_empty());
}

both_families!(a_connection_of_before_its_service_was_in_mode_dsr_goes_on_by_snat in in_both);
fn a_connection_of_before_its_service_was_in_mode_dsr_goes_on_by_snat<A: Family>() {
    let served = dsr(Backends::Elsewhere);
    let snat = served.replace(r#""forwarding":"dsr","#, "");
    let mut node = Node::new([snat.as_str()]);
    node.scan();
    let packet = Packet::new(
        Transport::TcpSyn,
        (A::OUTSIDER, 40_000),
        (A::EXTERNAL_IP, 80),
    );
    let at_backend = open_transit(&mut node, &packet);
    node.scan();
    node.apply(&served);
    for _ in 0..2 {
        let sent = node.ingress(&packet.with(Transport::TcpAck).frame());
        let goes_on = at_backend.with(Transport::TcpAck).frame();
        assert_eq!(sent, Verdict::Redirect(goes_on));
        node.scan();
    }
    assert_eq!(counted(&node, "wrapped"), 0);
    // As soon as it is forgotten, so is what it was.
    node.pass(1_000_000);
    node.scan();
    node.ingress(&packet.with(Transport::TcpAck).frame());
    assert_eq!(counted(&node, "wrapped"), 1);
}

both_families!(a_reply_is_none_of_a_younger_frontends_requests in in_both);
fn a_reply_is_none_of_a_younger_frontends_requests<A: Family>() {
    for transport in [Transport::TcpSyn, Transport::Udp] {
        let mut node = Node::new([cluster(Backends::Elsewhere).as_str(), NODES]);
        let frontend = (A::NODE, 30080);
        let client = (A::OUTSIDER, 40_000);
        let packet = Packet::new(transport, client, frontend);
        let at_backend = open_transit(&mut node, &packet);
        node.apply(&young(at_backend.source.1));
        node.scan();
        let first = at_backend.answer();
        let next = match transport {
            Transport::TcpSyn => first.with(Transport::TcpAck),
            _ => first.clone(),
        };
        for reply in [first, next.clone(), next] {
            let restored = reply.from(frontend).to(client).forwarded().frame();
            assert_eq!(node.ingress(&reply.frame()), Verdict::Redirect(restored));
        }
        assert_eq!(counted(&node, "wrapped"), 0, "{transport:?}");
        // A client of the younger one's, with the backend's address.
        let request = Packet::new(transport, (A::REMOTE, 40_000), at_backend.source);
        node.ingress(&request.frame());
        assert_eq!(counted(&node, "wrapped"), 1, "{transport:?}");
    }
}

/// The nodes of the cluster.
const NODES: &str = r#"{"event":"UpdateNodes","nodes":{"a":["192.168.16.10","2001:db8:16::10"],"b":["192.168.16.20","2001:db8:16::20"]}}"#;

/// Another service in mode dsr, of TCP and UDP, with this NodePort.
fn young(node_port: u16) -> String {
    let ports = ["TCP", "UDP"].map(|name| {
        format!(r#""{name}":{{"protocol":"{name}","port":81,"node_port":{node_port}}}"#)
    });
    let backends = ["10.1.2.3", "fd00:10:1:2::3"]
        .map(|ip| format!(r#"{{"ip":"{ip}","port":8081,"local":false,"node":"b"}}"#))
        .join(",");
    let backends = ["TCP", "UDP"].map(|name| format!(r#""{name}":[{backends}]"#));
    format!(
        r#"{{"event":"UpdateService","service":{{"id":{{"namespace":"default","name":"young"}},"cluster_ips":["10.96.0.9","fd00:96::9"],"forwarding":"dsr","ports":{{{}}},"backends":{{{}}}}}}}"#,
        ports.join(","),
        backends.join(","),
    )
}

both_families!(a_client_of_this_node_and_a_cluster_ip_are_served_as_ever in in_both);
fn a_client_of_this_node_and_a_cluster_ip_are_served_as_ever<A: Family>() {
    let mut node = node(Backends::Elsewhere);
    let pod = Packet::new(Transport::TcpSyn, (A::POD, 40_000), (A::EXTERNAL_IP, 80));
    let at_backend = pod.to((A::REMOTE, 8080));
    assert_eq!(
        node.ingress(&pod.frame()),
        Verdict::Pass(at_backend.frame())
    );
    let inside = Packet::new(
        Transport::TcpSyn,
        (A::OUTSIDER, 40_000),
        (A::CLUSTER_IP, 80),
    );
    open_transit(&mut node, &inside);
    assert_eq!(counted(&node, "wrapped"), 0);
}

both_families!(a_client_is_told_how_much_fits_into_an_envelope(20; 40) in in_both);
fn a_client_is_told_how_much_fits_into_an_envelope<A: Family>(headers: usize) {
    let mut node = node(Backends::Elsewhere);
    let udp = Packet::new(Transport::Udp, (A::OUTSIDER, 40_000), (A::EXTERNAL_IP, 80));
    let longest = udp.of_payload(MTU - headers - headers - 8);
    assert!(matches!(
        node.ingress(&longest.frame()),
        Verdict::Redirect(_)
    ));
    assert_eq!(counted(&node, "wrapped"), 1);
    let longer = udp.of_payload(MTU - headers - headers - 7);
    let Verdict::Redirect(told) = node.rejecting_ingress(&longer.frame()) else {
        panic!("not told");
    };
    assert_eq!(counted(&node, "reject_too_long"), 1);
    let error = &told[14 + headers..];
    let (kind, mtu) = if headers == 20 {
        ([3, 4], 1480)
    } else {
        ([2, 0], 1460)
    };
    assert_eq!(error[..2], kind);
    assert_eq!(u32::from_be_bytes(error[4..8].try_into().unwrap()), mtu);
    // A packet whose hops are spent gets an error, too.
    let spent = Packet {
        time_to_live: 1,
        ..udp
    };
    node.rejecting_ingress(&spent.frame());
    assert_eq!(counted(&node, "reject_expired"), 1);
}

both_families!(fragments_go_where_the_first_one_went(OTHER_V4; OTHER_V6) in in_both);
fn fragments_go_where_the_first_one_went<A: Family>(other: A)
where
    IpAddr: From<A>,
{
    let (mut first, mut second) = (node(Backends::Elsewhere), node(Backends::Here));
    let packet =
        Packet::new(Transport::Udp, (A::OUTSIDER, 40_000), (A::EXTERNAL_IP, 80)).of_payload(200);
    let came = packet.fragments(7, 48);
    let went = packet.to((A::LOCAL, 8080)).fragments(7, 48);
    let on_the_way = packet.forwarded().fragments(7, 48);
    for place in [0, 3, 1, 2, 4] {
        let wrapped = envelope(A::NODE, other, &on_the_way[place]);
        let sent = first.past_driver(&framed::<A>(&came[place]));
        assert_eq!(sent, Verdict::Redirect(wrapped), "{place}");
        let frame = envelope(other, A::NODE, &came[place]);
        let passed = Verdict::Pass(framed::<A>(&went[place]));
        assert_eq!(second.past_driver(&frame), passed, "{place}");
    }
}

/// The cluster with another backend elsewhere, at another node.
fn two_nodes(fields: &str) -> String {
    let more = |ip: &str, other: &str| {
        let backend = |ip: &str, node: &str| {
            format!(r#"{{"ip":"{ip}","port":8080,"local":false,"node":"{node}"}}"#)
        };
        (
            backend(ip, "b"),
            [backend(ip, "b"), backend(other, "c")].join(","),
        )
    };
    let (v4, v4_too) = more("10.1.2.3", "10.1.2.4");
    let (v6, v6_too) = more("fd00:10:1:2::3", "fd00:10:1:2::4");
    dsr(Backends::Elsewhere)
        .replace(&v4, &v4_too)
        .replace(&v6, &v6_too)
        .replacen(
            r#""b":["#,
            r#""c":["192.168.16.30","2001:db8:16::30"],"b":["#,
            1,
        )
        .replacen(r#""ports""#, &format!(r#"{fields}"ports""#), 1)
}

/// The nodes to which the client's packets from these ports go.
fn nodes_of<A: Family>(node: &mut Node, client: A, ports: std::ops::Range<u16>) -> Vec<A> {
    let mut nodes: Vec<A> = ports
        .map(|port| {
            let packet = Packet::new(Transport::Udp, (client, port), (A::EXTERNAL_IP, 80));
            let Verdict::Redirect(sent) = node.ingress(&packet.frame()) else {
                panic!("not in an envelope");
            };
            destination_of::<A>(&sent).0
        })
        .collect();
    nodes.sort_unstable_by(|one, other| one.as_ref().cmp(other.as_ref()));
    nodes.dedup();
    nodes
}

both_families!(a_client_with_session_affinity_has_one_node in in_both);
fn a_client_with_session_affinity_has_one_node<A: Family>() {
    for selection in ["weighted", "maglev"] {
        let fields = format!(r#""selection":"{selection}","#);
        let mut spread = Node::new([two_nodes(&fields).as_str()]);
        let all = nodes_of(&mut spread, A::OUTSIDER, 40_000..40_040);
        assert_eq!(all.len(), 2, "{selection}: {all:?}");
        let fields = format!(r#"{fields}"session_affinity_timeout":60,"#);
        let mut stays = Node::new([two_nodes(&fields).as_str()]);
        let one = nodes_of(&mut stays, A::OUTSIDER, 40_000..40_040);
        assert_eq!(one.len(), 1, "{selection}: {one:?}");
    }
}

both_families!(a_client_outside_the_source_ranges_is_dropped_at_either_node(OTHER_V4; OTHER_V6) in in_both);
fn a_client_outside_the_source_ranges_is_dropped_at_either_node<A: Family>(other: A)
where
    IpAddr: From<A>,
{
    let ranges = r#""load_balancer_source_ranges":["198.51.100.0/24","2001:db8:51::/48"],"load_balancer_ips""#;
    let [mut first, mut second] = [Backends::Elsewhere, Backends::Here].map(|backends| {
        Node::new([dsr(backends)
            .replacen(r#""external_ips""#, ranges, 1)
            .as_str()])
    });
    let packet = |client| Packet::new(Transport::Udp, (client, 40_000), (A::EXTERNAL_IP, 80));
    let (welcome, stranger) = (packet(A::OUTSIDER), packet(A::ROUTER));
    assert!(matches!(
        first.ingress(&welcome.frame()),
        Verdict::Redirect(_)
    ));
    assert_eq!(first.ingress(&stranger.frame()), Verdict::Drop);
    assert_eq!(counted(&first, "drop_source_range"), 1);
    let frame = |packet: &Packet<A>| envelope(other, A::NODE, &packet.packet());
    let at_backend = welcome.to((A::LOCAL, 8080)).frame();
    assert_eq!(second.ingress(&frame(&welcome)), Verdict::Pass(at_backend));
    assert_eq!(second.ingress(&frame(&stranger)), Verdict::Drop);
    assert_eq!(counted(&second, "drop_source_range"), 1);
}

both_families!(an_error_about_a_reply_goes_to_the_backends_node_as_packets_do(OTHER_V4; OTHER_V6) in in_both);
fn an_error_about_a_reply_goes_to_the_backends_node_as_packets_do<A: Family>(other: A)
where
    IpAddr: From<A>,
{
    let (mut first, mut second) = (node(Backends::Elsewhere), node(Backends::Here));
    let client = (A::OUTSIDER, 40_000);
    let packet = Packet::new(Transport::Udp, client, (A::EXTERNAL_IP, 80));
    let at_backend = packet.to((A::LOCAL, 8080));
    let opened = second.ingress(&envelope(other, A::NODE, &packet.packet()));
    assert_eq!(opened, Verdict::Pass(at_backend.frame()));
    for problem in PROBLEMS {
        let error = |to, hops: u8, about: &Packet<A>| {
            report(problem, A::ROUTER, to, 64 - hops, &about.packet())
        };
        let reply = packet.answer();
        let came = error(A::EXTERNAL_IP, 0, &reply);
        let wrapped = envelope(A::NODE, other, &error(A::EXTERNAL_IP, 1, &reply));
        let sent = first.ingress(&framed::<A>(&came));
        assert_eq!(sent, Verdict::Redirect(wrapped), "{problem:?}");
        let frame = envelope(other, A::NODE, &came);
        let told = framed::<A>(&error(A::LOCAL, 0, &at_backend.answer()));
        assert_eq!(second.ingress(&frame), Verdict::Pass(told), "{problem:?}");
    }
}
