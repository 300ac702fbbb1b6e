//! ICMP that is no error about a translated packet.

use super::{
    address::{Header, Problem},
    both_families,
    frame::{Packet, Transport, framed},
    node::{Node, Verdict},
    reports::report,
    world::{Backends, Family, node},
};

both_families!(what_is_no_error_about_a_flow_passes_untouched);
fn what_is_no_error_about_a_flow_passes_untouched<A: Family>() {
    untouched::<A>(node(Backends::Here));
}

pub(crate) fn untouched<A: Family>(mut node: Node) {
    let frontend = (A::CLUSTER_IP, 80);
    let request = Packet::new(Transport::Udp, (A::POD, 40_000), frontend);
    node.ingress(&request.frame()).passed();
    let at_backend = request.to((A::LOCAL, 8080));
    let about = |packet: &Packet<A>, to: A| {
        framed::<A>(&report(
            Problem::NoPort,
            A::ROUTER,
            to,
            64,
            &packet.packet(),
        ))
    };
    let truncated = {
        let mut quoted = at_backend.packet();
        quoted.truncate(A::HEADER + 3);
        framed::<A>(&report(Problem::NoPort, A::ROUTER, A::POD, 64, &quoted))
    };
    let mut echo = about(&at_backend, A::POD);
    echo[14 + A::HEADER] = if A::HEADER == 20 { 8 } else { 128 };
    let later = at_backend.fragments(7, 8).swap_remove(1);
    let cases = [
        (
            about(&at_backend.from((A::POD, 40_001)), A::POD),
            "another flow",
        ),
        (
            about(&at_backend.with(Transport::TcpSyn), A::POD),
            "another protocol",
        ),
        (
            about(&at_backend, A::OUTSIDER),
            "sent to another than the quoted sender",
        ),
        (truncated, "too short a quote"),
        (echo, "no error"),
        (
            framed::<A>(&report(Problem::NoPort, A::ROUTER, A::POD, 64, &later)),
            "a later fragment is quoted",
        ),
    ];
    for (frame, what) in cases {
        assert_eq!(node.egress(&frame), Verdict::Pass(frame.clone()), "{what}");
        assert_eq!(node.ingress(&frame), Verdict::Pass(frame.clone()), "{what}");
    }
    assert!(!node.counters().contains_key("icmp_error"));
}

both_families!(an_echo_to_a_service_address_passes_untouched(8; 128));
fn an_echo_to_a_service_address_passes_untouched<A: Family>(kind: u8) {
    let mut node = node(Backends::Here);
    for (frontend, _) in A::frontends() {
        let header = Header {
            protocol: A::ICMP,
            source: A::POD,
            destination: frontend,
            time_to_live: 64,
            identification: 1,
            options: &[],
            extensions: &[],
            fragment: None,
        };
        let frame = framed::<A>(&A::packet(&header, &[kind, 0, 1, 2, 0, 80, 0, 80, 5]));
        assert_eq!(node.ingress(&frame), Verdict::Pass(frame.clone()));
        assert_eq!(node.egress(&frame), Verdict::Pass(frame.clone()));
    }
    assert!(node.counters().is_empty(), "{:?}", node.counters());
}

both_families!(an_error_neither_opens_a_connection_nor_keeps_one);
fn an_error_neither_opens_a_connection_nor_keeps_one<A: Family>() {
    let mut node: Node = node(Backends::Here);
    let request = Packet::new(Transport::Udp, (A::POD, 40_000), (A::CLUSTER_IP, 80));
    let reply = request.answer();
    let about_reply = framed::<A>(&report(
        Problem::NoPort,
        A::POD,
        A::CLUSTER_IP,
        64,
        &reply.packet(),
    ));
    let passed = Verdict::Pass(about_reply.clone());
    assert_eq!(node.ingress(&about_reply), passed, "no such connection");
    assert!(node.connections().is_empty());

    node.ingress(&request.frame()).passed();
    let mut kept = 1;
    for _ in 0..100 {
        assert_ne!(node.ingress(&about_reply), passed);
        kept = node.pass(10);
        if kept == 0 {
            return;
        }
    }
    panic!("{kept} connections were kept");
}
