//! The guard: packets for services' addresses that are for none of their frontends.

use std::{collections::BTreeSet, net::IpAddr};

use etherparse::{IcmpEchoHeader, Icmpv4Header, Icmpv4Type, Icmpv6Header, Icmpv6Type, IpNumber};
use nix::net::if_::if_nametoindex;
use shunt_datapath::{Datapath, GuardOptions, RejectLimit};
use shunt_tests::{NEXT_HOP_TEXT, run};

use super::{
    address::{Address as _, Fragment, Header, Problem},
    both_families,
    frame::{NEIGHBOUR, Packet, THIS_STATION, Transport, ethernet, framed},
    needs_root,
    node::{Node, Verdict},
    reports::{report, unreachable},
    test_run::Sum,
    world::{Backends, Family, SERVED, UPLINK, V4, V6, cluster, in_network, node, node_with},
};

/// Differences of the families' pings.
trait Guarded: Family {
    /// An address in the range of ClusterIPs that no service has, and one in no range.
    const FREE: Self;
    const ELSEWHERE: Self;
    /// A question of ICMP's that is no echo.
    const OTHER_QUESTION: u8;
    /// The types of ICMP's messages that report something, and some that are not known; and of those the ones that
    /// are left to the stack.
    const REPORTS: &[u8];
    const ERRORS: &[u8];

    /// An echo request, or its answer.
    fn echo(is_request: bool, from: Self, to: Self, payload: &[u8]) -> Vec<u8>;
}

const ECHO: IcmpEchoHeader = IcmpEchoHeader { id: 77, seq: 3 };

impl Guarded for V4 {
    const FREE: Self = [10, 96, 0, 200];
    const ELSEWHERE: Self = [10, 97, 0, 200];
    const OTHER_QUESTION: u8 = 13;
    const REPORTS: &[u8] = &[3, 4, 5, 11, 12, 19, 41, 253];
    const ERRORS: &[u8] = &[3, 11, 12];

    fn echo(is_request: bool, _: Self, _: Self, payload: &[u8]) -> Vec<u8> {
        let kind = if is_request {
            Icmpv4Type::EchoRequest(ECHO)
        } else {
            Icmpv4Type::EchoReply(ECHO)
        };
        let header = Icmpv4Header::with_checksum(kind, payload);
        [header.to_bytes().as_slice(), payload].concat()
    }
}

impl Guarded for V6 {
    const FREE: Self = {
        let mut free = Self::CLUSTER_IP;
        free[15] = 200;
        free
    };
    const ELSEWHERE: Self = {
        let mut elsewhere = Self::FREE;
        elsewhere[3] = 0x97;
        elsewhere
    };
    const OTHER_QUESTION: u8 = 139;
    const REPORTS: &[u8] = &[1, 2, 3, 4, 5, 100, 127, 137];
    const ERRORS: &[u8] = &[1, 2, 3, 4, 137];

    fn echo(is_request: bool, from: Self, to: Self, payload: &[u8]) -> Vec<u8> {
        let kind = if is_request {
            Icmpv6Type::EchoRequest(ECHO)
        } else {
            Icmpv6Type::EchoReply(ECHO)
        };
        let header = Icmpv6Header::with_checksum(kind, from, to, payload).unwrap();
        [header.to_bytes().as_slice(), payload].concat()
    }
}

const RANGES: &str = r#"{"event":"UpdateServiceCidrs","new":["10.96.0.0/16","fd00:96::/112"]}"#;

/// A node of the cluster that guards and answers.
fn guarding(backends: Backends) -> Node {
    let options = GuardOptions {
        guard: true,
        echo: true,
    };
    let mut node = node_with(
        |all| (all.guard, all.rejects) = (options, RejectLimit { rate: 0 }),
        backends,
    );
    node.apply(RANGES);
    node
}

fn header<A: Family>(protocol: IpNumber, source: A, destination: A) -> Header<'static, A> {
    Header {
        protocol,
        source,
        destination,
        time_to_live: 7,
        identification: 1,
        options: &[],
        extensions: &[],
        fragment: None,
    }
}

#[track_caller]
fn counted(node: &Node, counter: &str, count: u64) {
    let counters = node.counters();
    assert_eq!(counters.get(counter), Some(&count), "{counters:?}");
}

both_families!(another_port_of_a_cluster_ip_is_rejected);
fn another_port_of_a_cluster_ip_is_rejected<A: Guarded>() {
    let mut node = guarding(Backends::Here);
    for client in [A::POD, A::OUTSIDER] {
        for transport in SERVED.into_iter().chain([Transport::TcpAck]) {
            let packet = Packet::new(transport, (client, 4000), (A::CLUSTER_IP, 81));
            let verdict = node.rejecting_ingress(&packet.frame());
            assert_eq!(
                verdict,
                Verdict::Redirect(unreachable(&packet)),
                "{transport:?}"
            );
            let served = packet.to((A::CLUSTER_IP, 80));
            if transport != Transport::TcpAck {
                let sent = node.ingress(&served.frame());
                let at_backend = served.to((A::LOCAL, 8080)).frame();
                assert_eq!(sent, Verdict::Pass(at_backend), "{transport:?}");
            }
        }
    }
    counted(&node, "reject_unknown_port", 10);
}

both_families!(another_protocol_of_a_cluster_ip_is_rejected);
fn another_protocol_of_a_cluster_ip_is_rejected<A: Guarded>() {
    let mut node = guarding(Backends::Here);
    let question = [A::OTHER_QUESTION, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    let mut rejected = 0;
    for (protocol, length) in [
        (IpNumber::ENCAPSULATING_SECURITY_PAYLOAD, 10),
        (A::ICMP, 10),
    ]
    .into_iter()
    .chain((1..=10).map(|length| (IpNumber::GRE, length)))
    // Less than their headers have.
    .chain((1..=9).map(|length| (IpNumber::TCP, length)))
    .chain((1..=7).map(|length| (IpNumber::UDP, length)))
    {
        let whole = A::packet(
            &header(protocol, A::POD, A::CLUSTER_IP),
            &question[..length],
        );
        // Eight bytes of what it carries, or as many as there are.
        let told = A::HEADER + length.min(8);
        let error = report(Problem::NoPort, A::CLUSTER_IP, A::POD, 64, &whole[..told]);
        let error = ethernet::<A>(THIS_STATION, NEIGHBOUR, &error);
        let verdict = node.rejecting_ingress(&framed::<A>(&whole));
        assert_eq!(verdict, Verdict::Redirect(error), "{protocol:?} {length}");
        rejected += 1;
    }
    counted(&node, "reject_unknown_port", rejected);
}

both_families!(no_error_is_sent_about_what_reports_something);
/// RFC 1122 section 3.2.2, RFC 4443 section 2.4(e), and `__icmp_send` of net/ipv4/icmp.c on types that are unknown.
fn no_error_is_sent_about_what_reports_something<A: Guarded>() {
    let mut node = guarding(Backends::Here);
    for kind in A::REPORTS {
        let report = [*kind, 0, 1, 2, 3, 4, 5, 6, 7, 8];
        let frame = framed::<A>(&A::packet(&header(A::ICMP, A::POD, A::CLUSTER_IP), &report));
        let verdict = node.rejecting_ingress(&frame);
        let is_left = A::ERRORS.contains(kind);
        let expected = if is_left {
            Verdict::Pass(frame)
        } else {
            Verdict::Drop
        };
        assert_eq!(verdict, expected, "{kind}");
    }
    let dropped = A::REPORTS.len() - A::ERRORS.len();
    counted(&node, "reject_unknown_port", dropped as u64);
}

both_families!(a_free_address_of_a_range_is_dropped);
fn a_free_address_of_a_range_is_dropped<A: Guarded>() {
    let mut node = guarding(Backends::Here);
    let frames = |to: A| {
        let mut frames: Vec<_> = SERVED
            .into_iter()
            .chain([Transport::TcpAck])
            .map(|transport| Packet::new(transport, (A::POD, 4000), (to, 80)).frame())
            .collect();
        let echo = A::echo(true, A::POD, to, b"hello");
        frames.push(framed::<A>(&A::packet(&header(A::ICMP, A::POD, to), &echo)));
        frames
    };
    for frame in frames(A::FREE) {
        assert_eq!(node.ingress(&frame), Verdict::Drop);
    }
    counted(&node, "drop_free_address", 6);
    for frame in frames(A::ELSEWHERE) {
        assert_eq!(node.ingress(&frame), Verdict::Pass(frame.clone()));
    }
    // What a service has is not free, also if the ranges are not known.
    node.apply(r#"{"event":"UpdateServiceCidrs","new":[]}"#);
    for frame in frames(A::FREE) {
        assert_eq!(node.ingress(&frame), Verdict::Pass(frame.clone()));
    }
    let packet = Packet::new(Transport::TcpSyn, (A::POD, 4000), (A::CLUSTER_IP, 81));
    let verdict = node.rejecting_ingress(&packet.frame());
    assert_eq!(verdict, Verdict::Redirect(unreachable(&packet)));
}

#[test]
fn the_guard_follows_the_services() {
    needs_root!();
    let mut node = guarding(Backends::Here);
    node.apply(r#"{"event":"UpdateServiceCidrs","new":[]}"#);
    let to = |port| Packet::new(Transport::TcpSyn, (V4::POD, 4000), (V4::FREE, port));
    let add = |port: u16| {
        format!(
            r#"{{"event":"AddService","service":{{"id":{{"namespace":"default","name":"api"}},"cluster_ips":["10.96.0.200"],"ports":{{"http":{{"protocol":"TCP","port":{port}}}}}}}}}"#
        )
    };
    for port in [1, 2] {
        let verdict = node.ingress(&to(port).frame());
        assert_eq!(verdict, Verdict::Pass(to(port).frame()), "nobody's");
    }
    for port in [1, 2] {
        node.apply(&add(port));
        let other = to(3 - port);
        let verdict = node.rejecting_ingress(&other.frame());
        assert_eq!(verdict, Verdict::Redirect(unreachable(&other)));
    }
    counted(&node, "reject_unknown_port", 2);
    node.apply(r#"{"event":"DeleteService","id":{"namespace":"default","name":"api"}}"#);
    let verdict = node.ingress(&to(1).frame());
    assert_eq!(verdict, Verdict::Pass(to(1).frame()), "nobody's again");
    // A snapshot has all.
    node.apply(RANGES);
    assert_eq!(node.ingress(&to(1).frame()), Verdict::Drop);
    node.apply(&cluster(Backends::Here));
    let verdict = node.ingress(&to(1).frame());
    assert_eq!(verdict, Verdict::Pass(to(1).frame()), "it names no ranges");
    let known = Packet::new(Transport::TcpSyn, (V4::POD, 4000), (V4::CLUSTER_IP, 81));
    let verdict = node.rejecting_ingress(&known.frame());
    assert_eq!(verdict, Verdict::Redirect(unreachable(&known)));
}

#[test]
fn an_address_of_the_hosts_own_is_left_to_it() {
    needs_root!();
    let mut node = guarding(Backends::Here);
    let own: BTreeSet<IpAddr> = [V4::CLUSTER_IP, V4::FREE].map(IpAddr::from).into();
    node.set_host_addresses(own);
    for address in [V4::CLUSTER_IP, V4::FREE] {
        let packet = Packet::new(Transport::TcpSyn, (V4::POD, 4000), (address, 81)).frame();
        assert_eq!(node.ingress(&packet), Verdict::Pass(packet.clone()));
    }
    node.set_host_addresses(BTreeSet::new());
    let packet = Packet::new(Transport::TcpSyn, (V4::POD, 4000), (V4::FREE, 81)).frame();
    assert_eq!(node.ingress(&packet), Verdict::Drop);
}

both_families!(parts_of_datagrams_go_no_further_either);
fn parts_of_datagrams_go_no_further_either<A: Guarded>() {
    let mut node = guarding(Backends::Here);
    for (to, counter) in [
        (A::CLUSTER_IP, "reject_unknown_port"),
        (A::FREE, "drop_free_address"),
    ] {
        let packet = Packet::new(Transport::Udp, (A::POD, 4000), (to, 81));
        let later = packet.fragments(7, 8).swap_remove(1);
        assert_eq!(node.ingress(&framed::<A>(&later)), Verdict::Drop);
        counted(&node, counter, 1);
    }
}

/// Sets the way to the address by `rule`.
fn route(address: &str, rule: &str) {
    let arguments = format!("route replace {address} {rule}");
    run("ip", &arguments.split(' ').collect::<Vec<_>>()).unwrap();
}

both_families!(an_echo_request_for_a_services_address_is_answered("203.0.113.7"; "2001:db8:113::7") in in_network);
fn an_echo_request_for_a_services_address_is_answered<A: Guarded>(external: &str) {
    route(external, "dev lo");
    let mut node = guarding(Backends::Nowhere);
    let options = [1, 7, 4, 4, 0, 0, 0, 0, 0, 0, 0, 0];
    let mut answered = 0;
    for payload in [&b""[..], b"odd", b"a payload of some more bytes"] {
        for to in [A::CLUSTER_IP, A::EXTERNAL_IP] {
            for options in [&[][..], &options] {
                let packet = |is_request, from, to, time_to_live| {
                    let header = Header {
                        time_to_live,
                        options,
                        ..header(A::ICMP, from, to)
                    };
                    A::packet(&header, &A::echo(is_request, from, to, payload))
                };
                let request = framed::<A>(&packet(true, A::POD, to, 7));
                let answer = packet(false, to, A::POD, 64);
                let answer = ethernet::<A>(THIS_STATION, NEIGHBOUR, &answer);
                assert_eq!(node.ingress(&request), Verdict::Redirect(answer), "{to:?}");
                answered += 1;
            }
        }
        let echo = A::echo(true, A::POD, A::NODE, payload);
        let to_node = framed::<A>(&A::packet(&header(A::ICMP, A::POD, A::NODE), &echo));
        assert_eq!(node.ingress(&to_node), Verdict::Pass(to_node.clone()));
    }
    counted(&node, "echo_reply", answered);
}

/// An echo request from outside, and the answer in the address's name.
fn ping<A: Guarded>(to: A) -> (Vec<u8>, Verdict) {
    let packet = |is_request, from, to, time_to_live| {
        let header = Header {
            time_to_live,
            ..header(A::ICMP, from, to)
        };
        A::packet(&header, &A::echo(is_request, from, to, b"hello"))
    };
    let answer = packet(false, to, A::OUTSIDER, 64);
    let answer = ethernet::<A>(THIS_STATION, NEIGHBOUR, &answer);
    let request = framed::<A>(&packet(true, A::OUTSIDER, to, 7));
    (request, Verdict::Redirect(answer))
}

both_families!(a_ping_for_an_external_address_is_answered_where_no_machine_would_get_it("203.0.113.7", "192.168.16.1"; "2001:db8:113::7", "2001:db8:16::1") in in_network);
fn a_ping_for_an_external_address_is_answered_where_no_machine_would_get_it<A: Guarded>(
    address: &str,
    router: &str,
) {
    for guard in [true, false] {
        let mut node = node_with(
            |options| options.guard = GuardOptions { guard, echo: true },
            Backends::Here,
        );
        let (request, answer) = ping(A::EXTERNAL_IP);
        let passed = || Verdict::Pass(request.clone());
        route(address, &format!("via {router}"));
        assert_eq!(node.ingress(&request), passed(), "a machine elsewhere");
        route(address, "dev lo");
        assert_eq!(node.ingress(&request), answer, "it would go to and fro");
        run("ip", &["route", "delete", address]).unwrap();
        assert_eq!(node.ingress(&request), passed(), "no route");
        let (request, answer) = ping(A::CLUSTER_IP);
        assert_eq!(node.ingress(&request), answer, "no machine has a ClusterIP");
    }
}

both_families!(nobody_answers_pings_in_the_name_of_a_node("203.0.113.7"; "2001:db8:113::7") in in_network);
fn nobody_answers_pings_in_the_name_of_a_node<A: Guarded>(address: &str) {
    route(address, "dev lo");
    let mut node = guarding(Backends::Here);
    let (request, answer) = ping(A::EXTERNAL_IP);
    let other = Packet::new(Transport::TcpSyn, (A::OUTSIDER, 4000), (A::EXTERNAL_IP, 81)).frame();
    let plain = cluster(Backends::Here);
    let with = |field: &str, value: &str| plain.replacen(field, &format!("{value}{field}"), 1);
    let of_nodes = [
        plain.replacen(
            r#""node_ips":["#,
            &format!(r#""node_ips":["{address}","#),
            1,
        ),
        with(
            r#""frontend_ifs""#,
            &format!(r#""nodes":{{"other":["{address}"]}},"#),
        ),
    ];
    for event in of_nodes {
        node.apply(&event);
        for frame in [&request, &other] {
            assert_eq!(node.ingress(frame), Verdict::Pass(frame.clone()), "{event}");
        }
        node.apply(&plain);
        assert_eq!(node.ingress(&request), answer, "no node has it any more");
    }
    // By an event of its own.
    let nodes = |nodes: &str| format!(r#"{{"event":"UpdateNodes","nodes":{nodes}}}"#);
    node.apply(&nodes(&format!(r#"{{"other":["{address}"]}}"#)));
    assert_eq!(node.ingress(&request), Verdict::Pass(request.clone()));
    node.apply(&nodes("{}"));
    assert_eq!(node.ingress(&request), answer);
}

both_families!(who_cannot_be_answered_is_not);
fn who_cannot_be_answered_is_not<A: Guarded>() {
    let mut node = guarding(Backends::Nowhere);
    let from = |source: A, fragment: Option<Fragment>| {
        let echo = A::echo(true, source, A::CLUSTER_IP, b"hello");
        let header = Header {
            fragment,
            ..header(A::ICMP, source, A::CLUSTER_IP)
        };
        framed::<A>(&A::packet(&header, &echo))
    };
    let mut loopback = A::of(&vec![0; size_of::<A>()]);
    assert_eq!(node.ingress(&from(loopback, None)), Verdict::Drop);
    counted(&node, "drop_martian", 1);
    loopback = A::of(&{
        let mut bytes = vec![0; size_of::<A>()];
        (bytes[0], bytes[size_of::<A>() - 1]) = if A::HEADER == 20 { (127, 1) } else { (0, 1) };
        bytes
    });
    assert_eq!(node.ingress(&from(loopback, None)), Verdict::Drop);
    counted(&node, "drop_martian", 2);
    let first = Fragment {
        identification: 7,
        offset: 0,
        is_last: false,
    };
    // No host here has the whole of it.
    let verdict = node.rejecting_ingress(&from(A::POD, Some(first)));
    assert!(matches!(verdict, Verdict::Redirect(_)), "{verdict:?}");
    assert!(!node.counters().contains_key("echo_reply"));
    counted(&node, "reject_unknown_port", 1);
}

#[test]
fn answers_are_as_few_as_rejections() {
    needs_root!();
    let mut node = node_with(
        |options| {
            options.guard.echo = true;
            options.rejects = RejectLimit { rate: 1 };
        },
        Backends::Here,
    );
    let echo = V4::echo(true, V4::POD, V4::CLUSTER_IP, b"hello");
    let frame = framed::<V4>(&V4::packet(
        &header(V4::ICMP, V4::POD, V4::CLUSTER_IP),
        &echo,
    ));
    assert!(matches!(node.ingress(&frame), Verdict::Redirect(_)));
    assert_eq!(node.ingress(&frame), Verdict::Drop);
    counted(&node, "drop_reject_rate", 1);
    // Without the guard another port is not refused.
    let other = Packet::new(Transport::Udp, (V4::POD, 4000), (V4::CLUSTER_IP, 81)).frame();
    assert_eq!(node.ingress(&other), Verdict::Pass(other.clone()));
}

#[test]
fn without_the_guard_nothing_is_looked_after() {
    needs_root!();
    let mut node = node(Backends::Here);
    node.apply(RANGES);
    for to in [V4::CLUSTER_IP, V4::FREE, V4::EXTERNAL_IP] {
        let other = Packet::new(Transport::Udp, (V4::POD, 4000), (to, 81)).frame();
        assert_eq!(node.ingress(&other), Verdict::Pass(other.clone()));
        let echo = V4::echo(true, V4::POD, to, b"hello");
        let echo = framed::<V4>(&V4::packet(&header(V4::ICMP, V4::POD, to), &echo));
        assert_eq!(node.ingress(&echo), Verdict::Pass(echo.clone()));
    }
}

/// Runs the program at the ingress of the uplink on a frame that is for its station. Returns the verdict, and the frame
/// as it came.
fn at_uplink(node: &mut Node, frame: &[u8]) -> (Verdict, Vec<u8>) {
    let mut frame = frame.to_vec();
    frame[..6].copy_from_slice(&UPLINK);
    let mut context = [0; INTERFACE + size_of::<u32>()];
    let index = if_nametoindex("eth0").unwrap();
    context[INTERFACE..].copy_from_slice(&index.to_ne_bytes());
    let ran = node.run_in(Datapath::INGRESS, &frame, &context, Sum::Unknown);
    (ran.unwrap().0, frame)
}

/// The offset of `ifindex` in `struct __sk_buff` of `linux/bpf.h`.
const INTERFACE: usize = 40;

both_families!(what_would_go_to_and_fro_is_dropped_and_nothing_else_of_an_external_address("203.0.113.7", ["192.168.16.1", "192.168.16.20"]; "2001:db8:113::7", ["2001:db8:16::1", "2001:db8:16::20"]) in in_network);
/// The way to [`Family::OUTSIDER`] is by the first router.
fn what_would_go_to_and_fro_is_dropped_and_nothing_else_of_an_external_address<A: Guarded>(
    address: &str,
    [router, other]: [&str; 2],
) {
    let of_link = |address: &str| match address.parse().unwrap() {
        IpAddr::V4(ip) => A::of(&ip.octets()),
        IpAddr::V6(ip) => A::of(&ip.octets()),
    };
    let mut node = guarding(Backends::Here);
    let frames_from = |source: A| {
        [
            Packet::new(Transport::TcpSyn, (source, 4000), (A::EXTERNAL_IP, 81)).frame(),
            Packet::new(Transport::TcpAck, (source, 4000), (A::EXTERNAL_IP, 81)).frame(),
            framed::<A>(&A::packet(
                &header(IpNumber::GRE, source, A::EXTERNAL_IP),
                &[0; 12],
            )),
        ]
    };
    let are_dropped = |node: &mut Node, source: A| {
        let dropped = frames_from(source).map(|frame| {
            let (verdict, frame) = at_uplink(node, &frame);
            if verdict != Verdict::Drop {
                assert_eq!(verdict, Verdict::Pass(frame));
                return false;
            }
            true
        });
        assert!(dropped == [true; 3] || dropped == [false; 3], "{dropped:?}");
        dropped[0]
    };
    assert!(
        !are_dropped(&mut node, A::OUTSIDER),
        "no route: the stack's"
    );
    route(address, &format!("via {router}"));
    assert!(are_dropped(&mut node, A::OUTSIDER), "by the same router");
    assert!(
        are_dropped(&mut node, of_link(router)),
        "to the router itself"
    );
    assert!(
        !are_dropped(&mut node, of_link(other)),
        "from a machine of the link"
    );
    route(address, &format!("via {other}"));
    assert!(!are_dropped(&mut node, A::OUTSIDER), "by another router");
    route(address, "dev eth0");
    assert!(
        !are_dropped(&mut node, A::OUTSIDER),
        "to a machine of the link"
    );
    route(address, "dev lo");
    assert!(!are_dropped(&mut node, A::OUTSIDER), "by another interface");
    counted(&node, "drop_loop", 6);
}

both_families!(a_ping_for_a_machine_of_the_link_is_left_to_it("203.0.113.7", "192.168.16.1"; "2001:db8:113::7", "2001:db8:16::1") in in_network);
fn a_ping_for_a_machine_of_the_link_is_left_to_it<A: Guarded>(address: &str, router: &str) {
    let mut node = guarding(Backends::Here);
    let (request, _) = ping(A::EXTERNAL_IP);
    let is_answered = |node: &mut Node| match at_uplink(node, &request) {
        (Verdict::Redirect(_), _) => true,
        (verdict, frame) => {
            assert_eq!(verdict, Verdict::Pass(frame));
            false
        }
    };
    route(address, &format!("via {router}"));
    assert!(is_answered(&mut node), "it would go to and fro");
    route(address, "dev eth0");
    assert!(is_answered(&mut node), "no machine is known to have it");
    let neighbour =
        format!("neighbour add {address} lladdr {NEXT_HOP_TEXT} dev eth0 nud permanent");
    run("ip", &neighbour.split(' ').collect::<Vec<_>>()).unwrap();
    assert!(!is_answered(&mut node), "a machine has it");
}
