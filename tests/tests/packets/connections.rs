//! Parts of a connection that stay while services change around it.

use super::{
    frame::{FIN_ACKED, OPENING, Packet, Transport, destination, source},
    needs_root,
    node::{Node, Verdict, resync, update, web},
};

const FRONTEND: ([u8; 4], u16) = ([10, 96, 0, 1], 80);

fn client(port: u16) -> ([u8; 4], u16) {
    ([10, 1, 1, 9], port)
}

fn backend(last: u8) -> ([u8; 4], u16) {
    ([10, 1, 1, last], 8080)
}

#[test]
fn every_packet_of_a_connection_goes_where_its_first_went() {
    needs_root!();
    let mut node = Node::new([resync(&[&web(&[(3, 1), (4, 1), (5, 1)])]).as_str()]);
    for (opening, following) in [
        (Transport::TcpSyn, Transport::TcpAck),
        (Transport::TcpSyn, Transport::TcpSyn),
        (Transport::Udp, Transport::Udp),
    ] {
        for port in 1000..1050 {
            let first = Packet::new(opening, client(port), FRONTEND);
            let chosen = destination(&node.ingress(&first.frame()).passed());
            for _ in 0..3 {
                let next = Packet::new(following, client(port), FRONTEND);
                let sent = node.ingress(&next.frame());
                assert_eq!(sent, Verdict::Pass(next.to(chosen).frame()));
            }
        }
    }
}

#[test]
fn tcp_and_udp_of_one_port_are_connections_of_their_own() {
    needs_root!();
    let mut node = Node::new([resync(&[&web(&[(3, 1)])]).as_str()]);
    let syn = Packet::new(Transport::TcpSyn, client(1000), FRONTEND);
    node.ingress(&syn.frame()).passed();
    let datagram = Packet::new(Transport::Udp, backend(3), client(1000)).frame();
    assert_eq!(
        node.egress(&datagram),
        Verdict::Pass(datagram.clone()),
        "no reply to the SYN"
    );
}

#[test]
fn a_tcp_connection_outlives_its_backend_in_the_list() {
    needs_root!();
    let mut node = Node::new([resync(&[&web(&[(3, 1)])]).as_str()]);
    let syn = Packet::new(Transport::TcpSyn, client(1000), FRONTEND);
    node.ingress(&syn.frame()).passed();
    node.apply(&update(&web(&[(4, 1)])));
    node.reclaim();
    let segment = Packet::new(Transport::TcpAck, client(1000), FRONTEND);
    assert_eq!(
        node.ingress(&segment.frame()),
        Verdict::Pass(segment.to(backend(3)).frame())
    );
    let reply = Packet::new(Transport::TcpSynAck, backend(3), client(1000));
    assert_eq!(
        node.egress(&reply.frame()),
        Verdict::Pass(reply.from(FRONTEND).frame())
    );
    assert_eq!(
        node.ingress(&syn.frame()),
        Verdict::Pass(syn.to(backend(4)).frame()),
        "a new connection from the same port does not inherit a backend that is gone",
    );
}

#[test]
fn a_terminating_backend_keeps_its_connections_and_gets_no_new_one() {
    needs_root!();
    let mut node = Node::new([resync(&[&web(&[(3, 1)])]).as_str()]);
    let syn = Packet::new(Transport::TcpSyn, client(1000), FRONTEND);
    let datagram = Packet::new(Transport::Udp, client(1000), FRONTEND);
    for packet in [&syn, &datagram] {
        node.ingress(&packet.frame()).passed();
    }
    let both = web(&[(3, 1), (4, 1)]);
    let terminating = both.replace(
        r#""ip":"10.1.1.3","#,
        r#""ip":"10.1.1.3","state":"Terminating","#,
    );
    node.apply(&update(&terminating));
    for packet in [&syn.with(Transport::TcpAck), &datagram] {
        let stays = Verdict::Pass(packet.to(backend(3)).frame());
        assert_eq!(node.ingress(&packet.frame()), stays, "{packet:?}");
    }
    for port in 2000..2050 {
        let new = Packet::new(Transport::TcpSyn, client(port), FRONTEND);
        assert_eq!(
            node.ingress(&new.frame()),
            Verdict::Pass(new.to(backend(4)).frame())
        );
    }
}

#[test]
fn a_client_port_in_use_at_two_frontends_of_a_backend_is_two_connections_there() {
    needs_root!();
    let mut node = Node::new([resync(&[&web(&[(3, 1)])]).as_str()]);
    let external = ([203, 0, 113, 7], 80);
    for transport in OPENING {
        let requests =
            [FRONTEND, external].map(|frontend| Packet::new(transport, client(1000), frontend));
        let [first, second] = [&requests[0], &requests[1]]
            .map(|request| source(&node.ingress(&request.frame()).passed()));
        assert_eq!(first, client(1000), "the first keeps its port");
        assert_eq!(second.0, client(1000).0, "the second keeps its address");
        assert!(
            (1024..30_000).contains(&second.1) && second.1 != 1000,
            "and gets a port of the range: {second:?}"
        );
        for _ in 0..3 {
            for (request, source) in requests.iter().zip([first, second]) {
                let at_backend = request.from(source).to(backend(3));
                assert_eq!(
                    node.ingress(&request.frame()),
                    Verdict::Pass(at_backend.frame())
                );
                let reply = at_backend.answer();
                let restored = reply.from(request.destination).to(client(1000));
                assert_eq!(node.egress(&reply.frame()), Verdict::Pass(restored.frame()));
            }
        }
    }
}

#[test]
fn a_client_port_that_a_backend_may_hold_is_used_again_at_the_same_frontend_alone() {
    needs_root!();
    let mut node = Node::new([resync(&[&web(&[(3, 1)])]).as_str()]);
    let external = ([203, 0, 113, 7], 80);
    let connect = |node: &mut Node, frontend| {
        let syn = Packet::new(Transport::TcpSyn, client(1000), frontend);
        let at_backend = syn
            .from(source(&node.ingress(&syn.frame()).passed()))
            .to(backend(3));
        let reply = at_backend.answer();
        let restored = reply.from(frontend).to(client(1000));
        assert_eq!(node.egress(&reply.frame()), Verdict::Pass(restored.frame()));
        node.ingress(&syn.with(Transport::TcpAck).frame()).passed();
        node.ingress(&syn.with(Transport::TcpFin).frame()).passed();
        node.egress(&reply.with(Transport::TcpFinAcks(FIN_ACKED)).frame())
            .passed();
        at_backend.source.1
    };
    assert_eq!(connect(&mut node, FRONTEND), 1000);
    assert_eq!(
        connect(&mut node, FRONTEND),
        1000,
        "the client sees to that"
    );
    assert_ne!(
        connect(&mut node, external),
        1000,
        "its timestamps begin anew"
    );
    node.pass(61);
    assert_eq!(connect(&mut node, external), 1000, "TIME-WAIT is over");
}

#[test]
fn a_flow_that_left_a_backend_is_not_disturbed_by_the_next_one_there() {
    needs_root!();
    let external = ([203, 0, 113, 7], 80);
    let mut node = Node::new([resync(&[&web(&[(3, 1)])]).as_str()]);
    let datagram = Packet::new(Transport::Udp, client(1000), FRONTEND);
    node.ingress(&datagram.frame()).passed();
    node.apply(&update(&web(&[(4, 1)])));
    let moved = Verdict::Pass(datagram.to(backend(4)).frame());
    assert_eq!(node.ingress(&datagram.frame()), moved, "it leaves 3");
    node.apply(&update(&web(&[(3, 1), (4, 0)])));
    let next = Packet::new(Transport::Udp, client(1000), external);
    let taken = Verdict::Pass(next.to(backend(3)).frame());
    assert_eq!(
        node.ingress(&next.frame()),
        taken,
        "another takes its place"
    );
    assert_eq!(
        node.ingress(&datagram.frame()),
        moved,
        "and the first stays where it went"
    );
}

#[test]
fn udp_flow_leaves_a_removed_backend() {
    needs_root!();
    let mut node = Node::new([resync(&[&web(&[(3, 1)])]).as_str()]);
    let datagram = Packet::new(Transport::Udp, client(1000), FRONTEND);
    node.ingress(&datagram.frame()).passed();
    node.apply(&update(&web(&[(4, 1)])));
    let moved = Verdict::Pass(datagram.to(backend(4)).frame());
    assert_eq!(node.ingress(&datagram.frame()), moved, "at its next packet");
    node.apply(&update(&web(&[(3, 1), (4, 1), (5, 1)])));
    node.reclaim();
    for _ in 0..20 {
        assert_eq!(
            node.ingress(&datagram.frame()),
            moved,
            "and stays where it went"
        );
    }
}

#[test]
fn a_connection_outlives_its_service_and_new_ones_do_not_start() {
    needs_root!();
    let mut node = Node::new([resync(&[&web(&[(3, 1)])]).as_str()]);
    let syn = Packet::new(Transport::TcpSyn, client(1000), FRONTEND);
    node.ingress(&syn.frame()).passed();
    node.apply(r#"{"event":"DeleteService","id":{"namespace":"default","name":"web"}}"#);
    node.reclaim();
    let segment = Packet::new(Transport::TcpAck, client(1000), FRONTEND);
    assert_eq!(
        node.ingress(&segment.frame()),
        Verdict::Pass(segment.to(backend(3)).frame())
    );
    let other = Packet::new(Transport::TcpSyn, client(1001), FRONTEND).frame();
    assert_eq!(
        node.ingress(&other),
        Verdict::Pass(other.clone()),
        "nobody's address any more"
    );
}

#[test]
fn a_connection_to_a_backend_at_the_frontends_own_address_ends_with_the_next_after_its_service() {
    needs_root!();
    let same = r#"{"id":{"namespace":"default","name":"web"},"cluster_ips":[],"external_ips":["10.1.1.3"],"ports":{"tcp":{"protocol":"TCP","port":8080}},"backends":{"tcp":[{"ip":"10.1.1.3","port":8080,"local":true}]}}"#;
    let mut node = Node::new([resync(&[same]).as_str()]);
    let syn = Packet::new(Transport::TcpSyn, client(1000), backend(3));
    let ack = syn.with(Transport::TcpAck).frame();
    let (syn, answer) = (syn.frame(), syn.answer().frame());
    assert_eq!(node.ingress(&syn), Verdict::Pass(syn.clone()));
    assert_eq!(node.egress(&answer), Verdict::Pass(answer));
    assert_eq!(node.ingress(&ack), Verdict::Pass(ack));
    assert_eq!(node.connections().len(), 1);
    node.apply(r#"{"event":"DeleteService","id":{"namespace":"default","name":"web"}}"#);
    node.reclaim();
    // The backend is to be asked first, and does not answer.
    node.pass(5);
    assert_eq!(node.ingress(&syn), Verdict::Pass(syn.clone()));
    node.pass(1);
    assert_eq!(node.ingress(&syn), Verdict::Pass(syn.clone()));
    assert!(
        node.connections().is_empty(),
        "that one is the client's own"
    );
}

#[test]
fn changes_of_others_move_no_connection() {
    needs_root!();
    let mut node = Node::new([resync(&[&web(&[(3, 1), (4, 1)])]).as_str()]);
    let flows: Vec<_> = (1000..1040)
        .map(|port| {
            let datagram = Packet::new(Transport::Udp, client(port), FRONTEND);
            let chosen = destination(&node.ingress(&datagram.frame()).passed());
            (datagram, chosen)
        })
        .collect();
    for change in [
        update(&web(&[(3, 7), (4, 1)])),
        update(&web(&[(3, 0), (4, 0), (5, 1)])),
        update(&web(&[(3, 1), (4, 1), (6, 1), (7, 1)])),
        update(
            &web(&[(3, 1), (4, 1)])
                .replace("web", "other")
                .replace("10.96.0.1", "10.96.0.2"),
        ),
        resync(&[&web(&[(2, 1), (3, 1), (4, 1)])]),
    ] {
        node.apply(&change);
        node.reclaim();
        for (datagram, chosen) in &flows {
            let sent = node.ingress(&datagram.frame());
            assert_eq!(
                sent,
                Verdict::Pass(datagram.to(*chosen).frame()),
                "{change}"
            );
        }
    }
}

#[test]
fn a_backend_that_opens_its_own_connection_keeps_its_address() {
    needs_root!();
    let mut node = Node::new([resync(&[&web(&[(3, 1)])]).as_str()]);
    let syn = Packet::new(Transport::TcpSyn, client(1000), FRONTEND);
    node.ingress(&syn.frame()).passed();
    for target in [client(1001), ([10, 1, 1, 8], 1000)] {
        let own = Packet::new(Transport::TcpSyn, backend(3), target).frame();
        assert_eq!(node.ingress(&own), Verdict::Pass(own.clone()));
        assert_eq!(node.egress(&own), Verdict::Pass(own.clone()));
    }
}
