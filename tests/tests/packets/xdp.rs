//! Packets that the XDP program takes, and those that it leaves to TC untouched. All other tests of
//! transit run on both, and so show that both do the same with what they take.

use std::{
    net::{IpAddr, Ipv6Addr},
    thread,
    time::Duration,
};

use shunt_tests::run;

use super::{
    both_families,
    frame::{OPENING, Packet, Transport},
    hooks::Hooks,
    needs_root,
    node::{Node, Verdict, resync, update},
    reports::unreachable,
    snat::{NODE_PORT, remote},
    world::{Backends, Family, V4, V6, cluster, in_network, node, open_transit, seen},
};

/// Returns whether the packet got no further than the driver.
#[track_caller]
fn is_taken(node: &mut Node, frame: &[u8]) -> bool {
    node.by_driver(frame).is_some()
}

/// Runs a test where there is the program: elsewhere nothing is taken.
pub(super) fn with_program(test: impl Fn() + Send + Sync) {
    in_network(|| {
        if Hooks::of_this_thread() == Hooks::XdpAndTc {
            test();
        }
    });
}

both_families!(each_packet_of_a_transit_flow_is_taken_from_its_first_one_on in with_program);
fn each_packet_of_a_transit_flow_is_taken_from_its_first_one_on<A: Family>() {
    let mut node = node(Backends::Elsewhere);
    let (mut packets, mut ports) = (0, 40_000..);
    for transport in [Transport::TcpSyn, Transport::Udp, Transport::UdpUnsummed] {
        for (frontend, port) in A::frontends().into_iter().zip(&mut ports) {
            let first = Packet::new(transport, (A::OUTSIDER, port), frontend);
            let at_backend = open_transit(&mut node, &first);
            let answer = at_backend.answer();
            let followers = match transport {
                Transport::TcpSyn => [Transport::TcpSynAck, Transport::TcpAck],
                other => [other, other],
            };
            let [answers, goes_on] = followers;
            let answer = answer.with(answers);
            assert_eq!(
                node.ingress(&answer.frame()),
                Verdict::Redirect(answer.from(frontend).to(first.source).forwarded().frame())
            );
            let request = first.with(goes_on);
            assert_eq!(
                node.ingress(&request.frame()),
                Verdict::Redirect(at_backend.with(goes_on).frame())
            );
            packets += 3;
            assert_eq!(
                node.taken_by_driver(),
                packets,
                "{transport:?} {frontend:?}"
            );
        }
    }
    let counters = node.counters();
    assert_eq!(counters["connection"], 9);
    assert_eq!((counters["request"], counters["reply"]), (18, 9));
}

both_families!(what_ends_here_is_dropped_or_rejected_by_the_driver in with_program);
fn what_ends_here_is_dropped_or_rejected_by_the_driver<A: Family>() {
    let mut node = node(Backends::Nowhere);
    let mut taken = 0;
    for transport in [Transport::TcpSyn, Transport::Udp] {
        for frontend in A::frontends() {
            let packet = Packet::new(transport, (A::OUTSIDER, 40_000), frontend);
            assert_eq!(
                node.by_driver(&packet.frame()),
                Some(Verdict::Redirect(unreachable(&packet))),
            );
            taken += 1;
        }
    }
    let counters: Vec<_> = node.counters().into_iter().collect();
    assert_eq!(counters, [("reject_no_backend", taken)]);
}

/// default/web of policy Local, with its only backend elsewhere; at the load balancer's address for
/// no client of the tests.
fn local_policy<A: Family + Into<IpAddr>>(balanced: A, ranges: &str) -> String {
    let [balanced, external, backend] =
        [balanced, A::EXTERNAL_IP, A::REMOTE].map(Into::<IpAddr>::into);
    format!(
        r#"{{"id":{{"namespace":"default","name":"web"}},"external_ips":["{external}"],"load_balancer_ips":["{balanced}"],"load_balancer_source_ranges":["{ranges}"],"traffic_policy":"Local","ports":{{"http":{{"protocol":"TCP","port":80,"node_port":30080}}}},"backends":{{"http":[{{"ip":"{backend}","port":8080}}]}}}}"#
    )
}

fn dropped<A: Family + Into<IpAddr>>(balanced: A, ranges: &str) {
    let mut node = Node::new([cluster(Backends::Nowhere).as_str()]);
    node.apply(&update(&local_policy(balanced, ranges)));
    let targets = [(A::EXTERNAL_IP, 80), (A::NODE, 30080), (balanced, 80)];
    for frontend in targets {
        let syn = Packet::new(Transport::TcpSyn, (A::OUTSIDER, 40_000), frontend);
        assert_eq!(
            node.by_driver(&syn.frame()),
            Some(Verdict::Drop),
            "{frontend:?}"
        );
    }
    let counters: Vec<_> = node.counters().into_iter().collect();
    assert_eq!(
        counters,
        [("drop_no_backend", 2), ("drop_source_range", 1)],
        "by reason, and for the service port each"
    );
    let refused = node.counted("http").refused;
    let of_port: u64 = refused.iter().map(|(_, packets)| packets).sum();
    assert_eq!(of_port, 3);
    assert!(node.connections().is_empty());
}

#[test]
fn the_driver_drops_who_is_shut_out_and_what_no_backend_here_takes() {
    needs_root!();
    with_program(|| {
        dropped::<V4>([203, 0, 113, 9], "192.0.2.0/24");
        let balanced = Ipv6Addr::new(0x2001, 0xdb8, 0x113, 0, 0, 0, 0, 9);
        dropped::<V6>(balanced.octets(), "2001:db8:192::/48");
    });
}

#[test]
fn a_way_is_remembered_for_a_tenth_of_a_second_at_most() {
    needs_root!();
    with_program(|| {
        let mut node = node(Backends::Elsewhere);
        let request = Packet::new(Transport::Udp, (V4::OUTSIDER, 40_000), (V4::NODE, 30080));
        open_transit(&mut node, &request);
        assert!(is_taken(&mut node, &request.frame()));
        let route = ["route", "replace", "blackhole", "10.1.2.0/24"];
        run("ip", &route).unwrap();
        // The coarse clock is late by a tick, which is 10 ms at most.
        thread::sleep(Duration::from_millis(110));
        assert!(
            !is_taken(&mut node, &request.frame()),
            "the way is another one by now"
        );
    });
}

both_families!(everything_else_passes_to_tc_and_nothing_is_learned_of_it in with_program);
fn everything_else_passes_to_tc_and_nothing_is_learned_of_it<A: Family>() {
    for backends in [Backends::Here, Backends::Elsewhere] {
        let mut node = node(backends);
        let outside = (A::OUTSIDER, 40_000);
        let mut leave = |what: &str, packet: Packet<A>| {
            assert!(
                !is_taken(&mut node, &packet.frame()),
                "{backends:?}: {what}"
            );
        };
        for transport in OPENING {
            let [cluster_ip, node_port, external_ip] = A::frontends();
            let to = |frontend| Packet::new(transport, outside, frontend);
            leave("no port of a frontend", to((A::NODE, 22)));
            leave("no frontend", to((A::ROUTER, 80)));
            leave("a pod", to((A::LOCAL, 8080)));
            leave(
                "of a pod",
                Packet::new(transport, (A::POD, 40_000), cluster_ip),
            );
            leave(
                "of this node",
                Packet::new(transport, (A::NODE, 40_000), external_ip),
            );
            let expired = Packet {
                time_to_live: 1,
                ..to(node_port)
            };
            leave("come too far", expired);
            if backends == Backends::Here {
                leave("to a backend here", to(node_port));
            }
        }
        leave(
            "of no connection",
            Packet::new(Transport::TcpAck, outside, (A::NODE, 30080)),
        );
        assert!(node.connections().is_empty());
        assert!(node.counters().is_empty(), "{:?}", node.counters());
    }
}

both_families!(a_flow_goes_on_at_whichever_hook_its_packets_come_by in with_program);
fn a_flow_goes_on_at_whichever_hook_its_packets_come_by<A: Family>() {
    let mut node = node(Backends::Elsewhere);
    for (port, opens_at_driver) in [(40_000, true), (40_001, false)] {
        let first = Packet::new(Transport::TcpSyn, (A::OUTSIDER, port), (A::NODE, 30080));
        let at_backend = if opens_at_driver {
            open_transit(&mut node, &first)
        } else {
            let sent = node.past_driver(&first.frame());
            let at_backend = first.from(seen(&sent)).to((A::REMOTE, 8080)).forwarded();
            assert_eq!(sent, Verdict::Redirect(at_backend.frame()));
            at_backend
        };
        let answer = at_backend.answer();
        let restored = answer.from(first.destination).to(first.source).forwarded();
        let request = first.with(Transport::TcpAck);
        let translated = at_backend.with(Transport::TcpAck);
        for _ in 0..3 {
            for (packet, expected) in [(&answer, &restored), (&request, &translated)] {
                let expected = Verdict::Redirect(expected.frame());
                assert_eq!(node.by_driver(&packet.frame()).as_ref(), Some(&expected));
                assert_eq!(node.past_driver(&packet.frame()), expected);
            }
        }
    }
    assert_eq!(node.connections().len(), 2);
}

#[test]
fn backends_get_their_shares_whichever_hook_chooses() {
    needs_root!();
    with_program(|| {
        // Half of the backends are here: what the driver leaves to TC, TC sends to the same one.
        let services = remote(&[3]).replace(
            r#"[{"ip":"10.1.2.3""#,
            r#"[{"ip":"10.1.1.3","port":8080,"local":true},{"ip":"10.1.2.3""#,
        );
        let mut node = Node::new([resync(&[&services]).as_str()]);
        let (mut here, count) = (0_i32, 4000_i32);
        for port in 10_000..10_000 + count as u16 {
            let syn = Packet::new(Transport::TcpSyn, (V4::OUTSIDER, port), NODE_PORT);
            match node.ingress(&syn.frame()) {
                Verdict::Pass(_) => here += 1,
                Verdict::Redirect(_) => {}
                Verdict::Drop => panic!("dropped"),
            }
        }
        // Six standard deviations of a fair coin.
        assert!((here - count / 2).abs() < 190, "{here} of {count}");
        let elsewhere = u64::from((count - here).unsigned_abs());
        let left = elsewhere - node.taken_by_driver();
        // If the clock ticks between the two programs, the second may choose another backend.
        assert!(left < elsewhere / 100, "{left} of {elsewhere} left to TC");
    });
}

#[test]
fn a_frame_for_another_station_is_left_alone() {
    needs_root!();
    with_program(|| {
        let mut node = node(Backends::Elsewhere);
        let packet = Packet::new(Transport::TcpSyn, (V4::OUTSIDER, 40_000), (V4::NODE, 30080));
        let others = |packet: &Packet| {
            let mut frame = packet.frame();
            frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 7]);
            frame
        };
        assert_eq!(node.by_driver(&others(&packet)), None);
        assert!(node.by_driver(&packet.frame()).is_some());
        let following = packet.with(Transport::TcpAck);
        assert_eq!(node.by_driver(&others(&following)), None);
        assert!(node.by_driver(&following.frame()).is_some());
    });
}
