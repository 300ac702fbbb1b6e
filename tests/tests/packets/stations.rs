//! Frames for other stations, which an interface that listens to all of its link overhears.

use shunt_datapath::ConntrackState as State;

use super::{
    both_families,
    frame::{OPENING, Packet, Transport},
    node::{Node, Verdict},
    world::{Backends, Family, in_network, node, node_with, open_transit},
};

/// The frame of the packet to a station that the loopback is not.
fn to_another<A: Family>(packet: &Packet<A>) -> Vec<u8> {
    let mut frame = packet.frame();
    frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 7]);
    frame
}

/// Makes sure that nothing becomes of the packet's frame if it is for another station.
#[track_caller]
fn assert_untouched<A: Family>(node: &mut Node, packet: &Packet<A>) {
    let frame = to_another(packet);
    assert_eq!(node.ingress(&frame), Verdict::Pass(frame.clone()));
}

both_families!(a_frame_for_another_station_passes_though_its_connection_is_known in in_network);
fn a_frame_for_another_station_passes_though_its_connection_is_known<A: Family>() {
    let mut node = node(Backends::Elsewhere);
    let mut passed = 0;
    for (port, transport) in (40_000..).zip(OPENING) {
        let first = Packet::new(transport, (A::OUTSIDER, port), (A::NODE, 30080));
        let at_backend = open_transit(&mut node, &first);
        let follows = match transport {
            Transport::TcpSyn => Transport::TcpAck,
            other => other,
        };
        let [request, options] = [&[][..], &[1, 1, 1, 1]].map(|options| Packet {
            options: options.to_vec(),
            ..first.with(follows)
        });
        for packet in [&first, &request, &options, &at_backend.answer()] {
            assert_untouched(&mut node, packet);
            passed += 1;
        }
        let connections = node.connections();
        assert!(
            connections
                .iter()
                .all(|one| matches!(one.state, State::SynSent | State::Unreplied)),
            "nothing is learned of them: {connections:?}"
        );
    }
    assert_eq!(node.counters()["pass_other_station"], passed);
}

both_families!(a_frame_for_another_station_to_a_backend_here_passes);
fn a_frame_for_another_station_to_a_backend_here_passes<A: Family>() {
    let mut node = node(Backends::Here);
    for (port, transport) in (40_000..).zip(OPENING) {
        for client in [A::OUTSIDER, A::POD, A::LOCAL] {
            let first = Packet::new(transport, (client, port), (A::EXTERNAL_IP, 80));
            assert_untouched(&mut node, &first);
            let (Verdict::Pass(_) | Verdict::Redirect(_)) = node.ingress(&first.frame()) else {
                panic!("the node's own frame is served");
            };
            assert_untouched(&mut node, &first);
        }
        assert_untouched(
            &mut node,
            &Packet::new(transport, (A::LOCAL, 8080), (A::HAIRPIN, port)),
        );
    }
}

both_families!(the_guard_leaves_frames_for_other_stations_alone);
fn the_guard_leaves_frames_for_other_stations_alone<A: Family>() {
    let mut node = node_with(
        |options| (options.guard.guard, options.guard.echo) = (true, true),
        Backends::Here,
    );
    for client in [A::OUTSIDER, A::POD] {
        let packet = Packet::new(Transport::TcpSyn, (client, 4000), (A::CLUSTER_IP, 81));
        assert_untouched(&mut node, &packet);
    }
}

both_families!(what_comes_in_by_a_bridges_port_is_served_whichever_station_it_is_for);
/// A pod's frame to the bridge, or to a neighbour on it, is one for another station at the pod's port.
fn what_comes_in_by_a_bridges_port_is_served_whichever_station_it_is_for<A: Family>() {
    let mut node = node(Backends::Here);
    node.set_ports(true);
    for (port, transport) in (40_000..).zip(OPENING) {
        let of = |client| Packet::new(transport, (client, port), (A::CLUSTER_IP, 80));
        let (pod, guest) = (of(A::POD), of(A::OUTSIDER));
        let sent = |packet: &Packet<A>| to_another(&packet.to((A::LOCAL, 8080)));
        for _ in 0..2 {
            let verdict = node.ingress(&to_another(&pod));
            assert_eq!(verdict, Verdict::Pass(sent(&pod)), "{transport:?}");
        }
        // The bridge opens it.
        assert_untouched(&mut node, &guest);
        node.ingress(&guest.frame()).passed();
        let verdict = node.ingress(&to_another(&guest));
        assert_eq!(verdict, Verdict::Pass(sent(&guest)), "{transport:?}");
    }
    assert!(!node.counters().contains_key("pass_other_station"));
}
