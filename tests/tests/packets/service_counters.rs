//! Counters of each service port. Each test that reads the counters of all checks the refusals: see [`Node::counters`].

use std::ops::Range;

use shunt_common::{TCP, UDP};
use shunt_datapath::{RejectLimit, ServiceCounts, TrafficCounts};

use super::{
    both_families,
    frame::{OPENING, Packet, SCTP_INIT, Transport},
    needs_root,
    node::{Node, Verdict, resync, update, web},
    world::{Backends, Family, V4, V6, in_network, ip, node, node_with, open_transit},
};

/// Packets that open flows, and the name of the service port that they are for.
const OPENERS: [(Transport, &str); 3] = [
    (Transport::TcpSyn, "TCP"),
    (Transport::Udp, "UDP"),
    (Transport::Sctp(SCTP_INIT), "SCTP"),
];

fn connections(node: &Node) -> [u64; 3] {
    OPENERS.map(|(_, port)| node.counted(port).connections)
}

/// Opens a flow to each frontend, with two packets each.
fn open_all<A: Family>(node: &mut Node) {
    for (transport, _) in OPENERS {
        for frontend in A::frontends() {
            let packet = Packet::new(transport, (A::POD, 40_000), frontend);
            for _ in 0..2 {
                node.ingress(&packet.frame()).passed();
            }
        }
    }
}

#[test]
fn a_connection_counts_once_whatever_the_frontend_and_the_family() {
    needs_root!();
    let mut node = node(Backends::Here);
    open_all::<V4>(&mut node);
    assert_eq!(connections(&node), [3, 3, 3]);
    open_all::<V6>(&mut node);
    assert_eq!(connections(&node), [6, 6, 6]);
    assert_eq!(node.counters()["connection"], 18, "as all of them together");
    assert_eq!(node.services().len(), 3);
}

both_families!(a_connection_that_two_processors_open_at_once_counts_once);
fn a_connection_that_two_processors_open_at_once_counts_once<A: Family>() {
    /// Enough that some of them race.
    const FLOWS: u16 = 4000;
    let mut node = node(Backends::Here);
    let frame = |port| {
        let frontend = (A::CLUSTER_IP, 80);
        Packet::new(Transport::TcpSyn, (A::POD, 40_000 + port), frontend).frame()
    };
    let frames: Vec<_> = (0..FLOWS).map(frame).collect();
    node.ingress_by_two(&frames);
    assert_eq!(node.connections().len(), usize::from(FLOWS));
    assert_eq!(node.counted("TCP").connections, u64::from(FLOWS));
    let counters = node.counters();
    assert_eq!(counters["connection"], u64::from(FLOWS), "{counters:?}");
}

/// Returns the number of connections of the service's backends, through this frontend, by their last byte.
fn chosen<A: Family>(node: &Node, frontend: A) -> [u64; 2] {
    let (_, chosen): (Vec<_>, Vec<u64>) = node.chosen(ip(frontend), TCP).into_iter().unzip();
    chosen.try_into().unwrap()
}

fn open_flows(node: &mut Node, ports: Range<u16>) {
    for port in ports {
        let packet = Packet::new(Transport::TcpSyn, (V4::POD, port), (V4::CLUSTER_IP, 80));
        for _ in 0..2 {
            node.ingress(&packet.frame()).passed();
        }
    }
}

#[test]
fn a_backend_counts_the_connections_that_it_was_chosen_for() {
    needs_root!();
    let mut node = Node::new([resync(&[&web(&[(3, 1), (4, 0)])]).as_str()]);
    open_flows(&mut node, 40_000..40_010);
    assert_eq!(chosen(&node, V4::CLUSTER_IP), [10, 0]);
    assert_eq!(
        chosen(&node, V4::EXTERNAL_IP),
        [10, 0],
        "the service port's, whatever the frontend"
    );
    let udp = node.chosen(ip(V4::CLUSTER_IP), UDP);
    assert_eq!(
        udp.into_values().collect::<Vec<_>>(),
        [0, 0],
        "of another service port"
    );

    // With another weight it is the same backend.
    node.apply(&update(&web(&[(3, 0), (4, 1)])));
    open_flows(&mut node, 40_010..40_013);
    assert_eq!(chosen(&node, V4::CLUSTER_IP), [10, 3]);
}

#[test]
fn a_backend_begins_at_0_whoever_had_its_place() {
    needs_root!();
    let mut node = Node::new([resync(&[&web(&[(3, 1), (4, 0)])]).as_str()]);
    open_flows(&mut node, 40_000..40_010);
    // Each backend takes a place that was free, and those of the ones that left come round: there are 64.
    for last in 10..100 {
        node.apply(&update(&web(&[(last, 1), (4, 0)])));
        node.reclaim();
        assert_eq!(
            chosen(&node, V4::CLUSTER_IP).iter().sum::<u64>(),
            0,
            "{last}"
        );
        open_flows(
            &mut node,
            41_000 + u16::from(last)..41_001 + u16::from(last),
        );
        assert_eq!(
            chosen(&node, V4::CLUSTER_IP).iter().sum::<u64>(),
            1,
            "{last}"
        );
    }
    node.apply(&update(&web(&[(3, 1), (4, 0)])));
    assert_eq!(chosen(&node, V4::CLUSTER_IP), [0, 0], "it was away");
}

both_families!(connections_of_either_family_and_hook_are_counted_for_their_backend);
/// Connections that the driver opens, where it does.
fn connections_of_either_family_and_hook_are_counted_for_their_backend<A: Family>() {
    in_network(|| {
        let mut node = node(Backends::Elsewhere);
        for port in 40_000..40_003 {
            let packet = Packet::new(Transport::TcpSyn, (A::OUTSIDER, port), (A::EXTERNAL_IP, 80));
            open_transit(&mut node, &packet);
        }
        let chosen = node.chosen(ip(A::EXTERNAL_IP), TCP);
        assert_eq!(chosen.into_values().sum::<u64>(), 3);
    });
}

fn is_told<A: Family>(node: &mut Node) {
    for (transport, port) in OPENERS {
        let before = node.counted(port);
        let packet = Packet::new(transport, (A::POD, 40_000), (A::CLUSTER_IP, 80));
        assert!(matches!(
            node.rejecting_ingress(&packet.frame()),
            Verdict::Redirect(_)
        ));
        let after = node.counted(port);
        let refused =
            |counts: &ServiceCounts| -> u64 { counts.refused.iter().map(|(_, count)| count).sum() };
        assert_eq!(refused(&after), refused(&before) + 1, "{port}");
        assert_eq!(after.refused[0].0.name(), "reject_no_backend");
        assert_eq!(after.connections, 0);
    }
}

#[test]
fn a_rejection_counts_for_the_service_port_that_was_asked() {
    needs_root!();
    let mut node = node_with(
        |options| options.rejects = RejectLimit { rate: 0 },
        Backends::Nowhere,
    );
    is_told::<V4>(&mut node);
    is_told::<V6>(&mut node);
    assert_eq!(node.counters()["reject_no_backend"], 6);
}

#[test]
fn a_packet_to_no_frontend_counts_for_nobody() {
    needs_root!();
    let mut node = node(Backends::Here);
    for transport in OPENING {
        let packet = Packet::new(transport, (V4::POD, 40_000), (V4::CLUSTER_IP, 81));
        node.ingress(&packet.frame()).passed();
    }
    for service in node.services() {
        assert_eq!(service.counts, ServiceCounts::default(), "{service:?}");
    }
}

/// The bytes of a packet from the IP header on.
fn length<A: Family>(packet: &Packet<A>) -> u64 {
    packet.packet().len() as u64
}

both_families!(packets_and_bytes_are_counted_both_ways);
fn packets_and_bytes_are_counted_both_ways<A: Family>() {
    let mut node = node_with(|options| options.count_traffic = true, Backends::Here);
    let client = (A::POD, 40_000);
    let frontend = (A::CLUSTER_IP, 80);
    let backend = (A::LOCAL, 8080);
    let mut expected = TrafficCounts::default();
    for (request, reply, payload) in [
        (Transport::TcpSyn, Transport::TcpSynAck, 0),
        (Transport::TcpAck, Transport::TcpAck, 1),
        (Transport::TcpAck, Transport::TcpAck, 1000),
    ] {
        let request = Packet::new(request, client, frontend).of_payload(payload);
        let sent = node.ingress(&request.frame());
        assert_eq!(sent, Verdict::Pass(request.to(backend).frame()));
        // As the pod's kernel sends it on: seen by the programs again, and nothing is counted twice.
        node.egress(&request.to(backend).frame()).passed();
        let reply = Packet::new(reply, backend, client).of_payload(2 * payload);
        node.ingress(&reply.frame()).passed();
        let sent = node.egress(&reply.frame());
        assert_eq!(sent, Verdict::Pass(reply.from(frontend).frame()));
        expected.request_packets += 1;
        expected.request_bytes += length(&request);
        expected.reply_packets += 1;
        expected.reply_bytes += length(&reply);
        assert_eq!(node.counted("TCP").traffic, Some(expected));
    }
    assert_eq!(node.counted("TCP").connections, 1);
    assert_eq!(node.counted("UDP").traffic, Some(TrafficCounts::default()));
    let counters = node.counters();
    assert_eq!((counters["request"], counters["reply"]), (3, 3));
}

both_families!(packets_that_are_forwarded_past_the_stack_are_counted);
/// Packets that the programs forward themselves: the first of a flow and those that follow.
fn packets_that_are_forwarded_past_the_stack_are_counted<A: Family>() {
    in_network(|| {
        let mut node = node_with(|options| options.count_traffic = true, Backends::Elsewhere);
        let mut expected = TrafficCounts::default();
        for (number, payload) in (40_000..).zip([10, 200]) {
            let client = (A::OUTSIDER, number);
            let request =
                Packet::new(Transport::Udp, client, (A::EXTERNAL_IP, 80)).of_payload(payload);
            let at_backend = open_transit(&mut node, &request);
            let reply = at_backend.answer();
            let follower = request.of_payload(2 * payload);
            for frame in [&reply, &follower].map(Packet::frame) {
                assert!(matches!(node.ingress(&frame), Verdict::Redirect(_)));
            }
            expected.request_packets += 2;
            expected.request_bytes += length(&request) + length(&follower);
            expected.reply_packets += 1;
            expected.reply_bytes += length(&reply);
        }
        let counted = node.counted("UDP");
        assert_eq!(counted.traffic, Some(expected));
        assert_eq!(counted.connections, 2);
    });
}

both_families!(what_the_driver_leaves_to_tc_is_counted_once);
/// Packets that more than one program may look at, for whom only the last one does anything.
fn what_the_driver_leaves_to_tc_is_counted_once<A: Family>() {
    in_network(|| {
        let mut node = node_with(|options| options.count_traffic = true, Backends::Here);
        let client = (A::OUTSIDER, 40_000);
        let request = Packet::new(Transport::Udp, client, (A::NODE, 30080)).of_payload(100);
        for packets in 1..=3 {
            node.ingress(&request.frame()).passed();
            let counted = node.counted("UDP");
            let expected = TrafficCounts {
                request_packets: packets,
                request_bytes: packets * length(&request),
                ..TrafficCounts::default()
            };
            assert_eq!(counted.traffic, Some(expected));
            assert_eq!(counted.connections, 1);
        }
    });
}

#[test]
fn without_the_flag_no_packet_is_counted() {
    needs_root!();
    let mut node = node(Backends::Here);
    open_all::<V4>(&mut node);
    assert_eq!(node.counted("TCP").traffic, None);
}

/// A service of one port at this address.
fn other(name: &str, cluster_ip: &str) -> String {
    format!(
        r#"{{"id":{{"namespace":"default","name":"{name}"}},"cluster_ips":["{cluster_ip}"],"ports":{{"main":{{"protocol":"TCP","port":80}}}},"backends":{{"main":[{{"ip":"10.1.1.3","port":8080,"local":true}}]}}}}"#
    )
}

#[test]
fn a_connection_of_a_service_that_is_gone_counts_for_nobody_who_has_its_index() {
    needs_root!();
    let mut node = Node::with(
        |options| {
            options.count_traffic = true;
            options.sizes.services = 1;
        },
        [resync(&[&other("web", "10.96.0.1")]).as_str()],
    );
    let request = |transport| Packet::new(transport, (V4::POD, 40_000), ([10, 96, 0, 1], 80));
    node.ingress(&request(Transport::TcpSyn).frame()).passed();
    let backend = ([10, 1, 1, 3], 8080);
    let answer = Packet::new(Transport::TcpSynAck, backend, (V4::POD, 40_000));
    node.egress(&answer.frame()).passed();
    let counted = node.counted("main");
    assert_eq!(counted.connections, 1);
    let both = |traffic: TrafficCounts| (traffic.request_packets, traffic.reply_packets);
    assert_eq!(counted.traffic.map(both), Some((1, 1)));

    node.apply(r#"{"event":"DeleteService","id":{"namespace":"default","name":"web"}}"#);
    node.reclaim();
    assert_eq!(node.services().len(), 0);
    node.apply(&format!(
        r#"{{"event":"AddService","service":{}}}"#,
        other("next", "10.96.0.2")
    ));
    let services = node.services();
    assert_eq!(services.len(), 1, "it has the index");
    // The connection lives on.
    let sent = node.ingress(&request(Transport::TcpAck).frame());
    let expected = request(Transport::TcpAck).to(backend);
    assert_eq!(sent, Verdict::Pass(expected.frame()));
    let [next] = node.services().try_into().unwrap();
    assert_eq!(&*next.service.name, "next");
    assert_eq!(next.counts.connections, 0);
    assert_eq!(next.counts.traffic, Some(TrafficCounts::default()));
}

#[test]
fn a_service_port_without_room_is_translated_and_not_counted() {
    needs_root!();
    let mut node = Node::with(
        |options| options.sizes.services = 1,
        [resync(&[&other("web", "10.96.0.1"), &other("late", "10.96.0.2")]).as_str()],
    );
    for last in [1, 2] {
        let client = (V4::POD, 40_000 + u16::from(last));
        let packet = Packet::new(Transport::TcpSyn, client, ([10, 96, 0, last], 80));
        node.ingress(&packet.frame()).passed();
    }
    let [counted] = node.services().try_into().unwrap();
    assert_eq!(counted.counts.connections, 1);
    assert_eq!(node.counters()["connection"], 2);
}

#[test]
fn a_service_port_keeps_its_counts_when_its_backends_change() {
    needs_root!();
    let mut node = Node::new([resync(&[&web(&[(3, 1)])]).as_str()]);
    let open = |node: &mut Node, port| {
        let packet = Packet::new(Transport::TcpSyn, (V4::POD, port), ([10, 96, 0, 1], 80));
        node.ingress(&packet.frame()).passed();
    };
    open(&mut node, 1000);
    for backends in [vec![(4, 1)], vec![], vec![(5, 1), (6, 1)]] {
        node.apply(&update(&web(&backends)));
        node.reclaim();
    }
    open(&mut node, 1001);
    assert_eq!(node.counted("tcp").connections, 2);
    node.apply(&resync(&[&web(&[(5, 1)])]));
    assert_eq!(node.counted("tcp").connections, 2, "nor by a Resync");
}
