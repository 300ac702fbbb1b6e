//! The programs' reports of connections and packets while there is a watcher: each thing once, whatever the family and
//! the hook.

use std::net::SocketAddr;

use shunt_common::{Counter, EndCause, FlowKind, PACKET_BYTES};
use shunt_datapath::{
    Datapath, Flow, FlowChoice, FlowConnection, FlowEnd, FlowReader, RejectLimit,
};

use super::{
    both_families,
    frame::{FIN_ACKED, Packet, Transport},
    needs_root,
    node::{Node, Verdict, resync, update, web},
    world::{Backends, Family, V4, in_network, ip, node, node_with, open_transit},
};

fn told(reader: &mut FlowReader) -> Vec<Flow> {
    std::iter::from_fn(|| reader.next_flow()).collect()
}

/// The connections that were reported, and nothing else was.
#[track_caller]
fn connections(reader: &mut FlowReader) -> Vec<FlowConnection> {
    let connection = |flow| match flow {
        Flow::Connection(connection) => connection,
        Flow::Packet(packet) => panic!("a packet: {packet:?}"),
    };
    told(reader).into_iter().map(connection).collect()
}

/// Returns the causes of connections' ends; `None` for those that began.
fn ends(connections: &[FlowConnection]) -> Vec<Option<EndCause>> {
    connections
        .iter()
        .map(|connection| connection.ended)
        .collect()
}

fn at<A: Family>((address, port): (A, u16)) -> SocketAddr {
    SocketAddr::new(ip(address), port)
}

/// A connection of a pod's to a backend here, opened, answered, acknowledged. Returns its two directions.
fn connect<A: Family>(node: &mut Node, port: u16) -> [Packet<A>; 2] {
    let client = (A::POD, port);
    let request = Packet::new(Transport::TcpSyn, client, (A::CLUSTER_IP, 80));
    node.ingress(&request.frame()).passed();
    let reply = Packet::new(Transport::TcpSynAck, (A::LOCAL, 8080), client);
    node.egress(&reply.frame()).passed();
    let request = request.with(Transport::TcpAck);
    node.ingress(&request.frame()).passed();
    [request, reply]
}

both_families!(a_connection_is_told_when_it_begins_and_when_both_sides_have_ended_it);
fn a_connection_is_told_when_it_begins_and_when_both_sides_have_ended_it<A: Family>() {
    let mut node = node(Backends::Here);
    let mut reader = node.watch(FlowKind::ALL, 1);
    let [request, reply] = connect::<A>(&mut node, 40_000);
    let opened = connections(&mut reader);
    let [one] = opened.as_slice() else {
        panic!("{opened:?}");
    };
    assert_eq!(one.ended, None);
    assert_eq!((one.protocol, one.snat_source), (6, None));
    assert_eq!(one.client, at((A::POD, 40_000)));
    assert_eq!(one.frontend, at((A::CLUSTER_IP, 80)));
    assert_eq!(one.backend, at((A::LOCAL, 8080)));
    assert_ne!(one.service, 0);

    node.ingress(&request.with(Transport::TcpFin).frame())
        .passed();
    assert_eq!(connections(&mut reader), [], "one side may go on");
    for _ in 0..2 {
        // The second one is sent again.
        node.egress(&reply.with(Transport::TcpFinAcks(FIN_ACKED)).frame())
            .passed();
    }
    let ended = connections(&mut reader);
    assert_eq!(ends(&ended), [Some(EndCause::Finished)]);
    let is_the_same = FlowConnection {
        time: one.time,
        ended: None,
        ..ended[0]
    };
    assert_eq!(is_the_same, *one);
    // What has ended is forgotten without a word.
    node.pass(100_000);
    let again = Packet::new(Transport::TcpSyn, (A::POD, 40_000), (A::CLUSTER_IP, 80));
    node.ingress(&again.frame()).passed();
    assert_eq!(ends(&connections(&mut reader)), [None]);
    assert_eq!(reader.lost(), 0);
}

both_families!(a_connection_with_snat_is_told_at_either_hook);
fn a_connection_with_snat_is_told_at_either_hook<A: Family>() {
    in_network(|| {
        let mut node = node(Backends::Elsewhere);
        let mut reader = node.watch(FlowKind::ALL, 1);
        let request = Packet::new(
            Transport::TcpSyn,
            (A::OUTSIDER, 40_000),
            (A::EXTERNAL_IP, 80),
        );
        let at_backend = open_transit(&mut node, &request);
        let reset = at_backend.answer().with(Transport::TcpRst);
        assert!(matches!(node.ingress(&reset.frame()), Verdict::Redirect(_)));
        let told = connections(&mut reader);
        assert_eq!(ends(&told), [None, Some(EndCause::Reset)]);
        for one in told {
            assert_eq!(one.client, at((A::OUTSIDER, 40_000)));
            assert_eq!(one.frontend, at((A::EXTERNAL_IP, 80)));
            assert_eq!(one.backend, at((A::REMOTE, 8080)));
            assert_eq!(one.snat_source, Some(at(at_backend.source)));
        }
    });
}

both_families!(a_connection_that_timed_out_is_told_by_a_packet_or_found_in_the_table);
fn a_connection_that_timed_out_is_told_by_a_packet_or_found_in_the_table<A: Family>() {
    let mut node = node(Backends::Here);
    let mut reader = node.watch(FlowKind::ALL, 1);
    let (_, begin) = node.expired_since(0);
    let open = |node: &mut Node, port| {
        let packet = Packet::new(Transport::Udp, (A::POD, port), (A::CLUSTER_IP, 80));
        node.ingress(&packet.frame()).passed();
    };
    open(&mut node, 40_000);
    open(&mut node, 40_001);
    assert_eq!(ends(&connections(&mut reader)), [None, None]);
    node.pass(1000);
    // The next packet of the one notices it.
    open(&mut node, 40_000);
    let told = connections(&mut reader);
    assert_eq!(ends(&told), [Some(EndCause::TimedOut), None]);
    assert!(told[0].overdue > 0);
    // A look finds the other one, which no packet may ever come for.
    let (expired, _) = node.expired_since(begin.wrapping_sub(1_000_000));
    let [expired] = expired.as_slice() else {
        panic!("{expired:?}");
    };
    assert_eq!(expired.client, at((A::POD, 40_001)));
    assert_eq!(expired.ended, Some(EndCause::TimedOut));
    assert_eq!(connections(&mut reader), []);
}

#[test]
fn a_flow_that_leaves_its_backend_is_told_to_be_replaced() {
    needs_root!();
    let mut node = Node::new([resync(&[&web(&[(3, 1)])]).as_str()]);
    let mut reader = node.watch(FlowKind::ALL, 1);
    let packet = Packet::new(Transport::Udp, (V4::POD, 40_000), (V4::CLUSTER_IP, 80));
    node.ingress(&packet.frame()).passed();
    node.apply(&update(&web(&[(4, 1)])));
    node.ingress(&packet.frame()).passed();
    let told = connections(&mut reader);
    assert_eq!(ends(&told), [None, Some(EndCause::Replaced), None]);
    assert_eq!(told[1].backend, at((V4::LOCAL, 8080)));
    assert_eq!(told[2].backend, at((V4::LOCAL_TOO, 8080)));
}

both_families!(a_refused_packet_is_told_with_its_reason_and_its_first_bytes);
fn a_refused_packet_is_told_with_its_reason_and_its_first_bytes<A: Family>() {
    in_network(|| {
        let mut node = node_with(
            |options| options.rejects = RejectLimit { rate: 0 },
            Backends::Nowhere,
        );
        let mut reader = node.watch(FlowKind::ALL, 1);
        let refused = Packet::new(Transport::TcpSyn, (A::POD, 40_000), (A::CLUSTER_IP, 80));
        let refused = refused.of_payload(300);
        assert!(matches!(
            node.rejecting_ingress(&refused.frame()),
            Verdict::Redirect(_)
        ));
        let told = told(&mut reader);
        let [Flow::Packet(packet)] = told.as_slice() else {
            panic!("{told:?}");
        };
        assert!(packet.is_refused);
        assert_eq!(packet.reason, Counter::RejectNoBackend);
        assert_ne!(packet.service, 0);
        assert_eq!(packet.length as usize, refused.frame().len());
        assert_eq!(packet.bytes, refused.frame()[..PACKET_BYTES], "as it came");
    });
}

#[test]
fn a_dropped_packet_is_told_whatever_its_length() {
    needs_root!();
    in_network(|| {
        let mut node = node(Backends::Elsewhere);
        let mut reader = node.watch(FlowKind::DROPPED, 1);
        // From an address that no router takes packets from.
        let martian = Packet::new(
            Transport::Udp,
            ([127, 0, 0, 9], 40_000),
            (V4::EXTERNAL_IP, 80),
        );
        for payload in [0, 200] {
            let martian = martian.of_payload(payload);
            assert_eq!(node.ingress(&martian.frame()), Verdict::Drop);
            let told = told(&mut reader);
            let [Flow::Packet(packet)] = told.as_slice() else {
                panic!("{told:?}");
            };
            assert!(!packet.is_refused);
            assert_eq!(packet.reason, Counter::DropMartian);
            let frame = martian.frame();
            assert_eq!(packet.bytes, frame[..frame.len().min(PACKET_BYTES)]);
        }
    });
}

#[test]
fn only_what_is_wanted_is_told() {
    needs_root!();
    let mut node = node(Backends::Here);
    let mut reader = node.watch(FlowKind::ENDED, 1);
    let [request, _] = connect::<V4>(&mut node, 40_000);
    assert_eq!(connections(&mut reader), []);
    node.ingress(&request.with(Transport::TcpRst).frame())
        .passed();
    assert_eq!(ends(&connections(&mut reader)), [Some(EndCause::Reset)]);
    node.unwatch();
    connect::<V4>(&mut node, 40_001);
    assert_eq!(connections(&mut reader), []);
}

#[test]
fn programs_that_tell_nothing_know_no_ring() {
    needs_root!();
    let mut node = node(Backends::Here);
    for program in [Datapath::INGRESS, Datapath::EGRESS] {
        let before = node.tables_of(program);
        let reader = node.watch(FlowKind::ALL, 1);
        let telling = node.tables_of(program);
        node.unwatch();
        drop(reader);
        assert_eq!(node.tables_of(program), before);
        let more: Vec<_> = telling.difference(&before).collect();
        assert_eq!(more, ["FLOW_CONTROL", "FLOW_EVENTS"], "{program}");
        assert!(telling.is_superset(&before), "{program}");
    }
}

#[test]
fn one_connection_in_so_many_is_told_with_all_of_its_events() {
    needs_root!();
    let mut node = node(Backends::Here);
    let mut reader = node.watch(FlowKind::ALL, 4);
    for port in 40_000..40_400 {
        let [request, _] = connect::<V4>(&mut node, port);
        node.ingress(&request.with(Transport::TcpRst).frame())
            .passed();
    }
    let told = connections(&mut reader);
    let (ended, opened): (Vec<_>, Vec<_>) = told.iter().partition(|one| one.ended.is_some());
    let clients = |of: &[&FlowConnection]| of.iter().map(|one| one.client).collect::<Vec<_>>();
    assert_eq!(clients(&opened), clients(&ended));
    assert!((60..140).contains(&opened.len()), "{} of 400", opened.len());
}

both_families!(programs_tell_of_wanted_clients_and_frontends_alone);
fn programs_tell_of_wanted_clients_and_frontends_alone<A: Family>() {
    let mut node = node(Backends::Here);
    let end = |(address, port): (A, u16)| {
        Some(FlowEnd {
            range: ip(address).into(),
            port,
        })
    };
    let mut reader = node.watch_chosen(FlowChoice {
        kinds: FlowKind::ALL,
        one_in: 1,
        client: end((A::POD, 40_001)),
        frontend: end((A::CLUSTER_IP, 0)),
    });
    for port in [40_000, 40_001] {
        let [request, _] = connect::<A>(&mut node, port);
        node.ingress(&request.with(Transport::TcpRst).frame())
            .passed();
    }
    let told = connections(&mut reader);
    assert_eq!(ends(&told), [None, Some(EndCause::Reset)]);
    assert!(told.iter().all(|one| one.client == at((A::POD, 40_001))));
}

#[test]
fn a_connection_that_gives_way_for_room_is_told() {
    needs_root!();
    let mut node = Node::with_conntrack(1 << 10, [resync(&[&web(&[(3, 1)])]).as_str()]);
    let mut reader = node.watch(FlowKind::ENDED, 1);
    for number in 0..2000_u32 {
        let [_, _, high, low] = number.to_be_bytes();
        let client = ([10, 9, high, low], 40_000);
        let packet = Packet::new(Transport::TcpSyn, client, (V4::CLUSTER_IP, 80));
        node.ingress(&packet.frame());
    }
    let told = connections(&mut reader);
    assert!(!told.is_empty());
    for one in &told {
        assert_eq!(one.ended, Some(EndCause::EarlyDrop), "{one:?}");
        assert_eq!(one.frontend, at((V4::CLUSTER_IP, 80)));
        assert_eq!(one.backend, at((V4::LOCAL, 8080)));
    }
    let mut clients: Vec<_> = told.iter().map(|one| one.client).collect();
    clients.sort_unstable();
    clients.dedup();
    assert_eq!(clients.len(), told.len(), "each once");
    let dropped = node.counters()[Counter::ConntrackEarlyDrop.name()];
    assert_eq!(dropped, told.len() as u64);
}

#[test]
fn what_finds_no_room_is_counted() {
    needs_root!();
    let mut node = Node::with_conntrack(1 << 18, [resync(&[&web(&[(3, 1)])]).as_str()]);
    let mut reader = node.watch(FlowKind::OPENED, 1);
    let opened = 45_000_u32;
    for number in 0..opened {
        let [_, _, high, low] = number.to_be_bytes();
        let client = ([10, 9, high, low], 40_000);
        let packet = Packet::new(Transport::Udp, client, (V4::CLUSTER_IP, 80));
        node.ingress(&packet.frame()).passed();
    }
    let read = connections(&mut reader).len() as u64;
    assert!(reader.lost() > 0, "{read} were read");
    assert_eq!(read + reader.lost(), u64::from(opened));
}
