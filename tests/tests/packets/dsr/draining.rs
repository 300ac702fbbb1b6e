//! Connections to backends that are draining on another node: what cannot begin a connection and is of none that a
//! node knows goes there.

use std::net::IpAddr;

use super::world::{OTHER_V4, OTHER_V6, counted, dsr, envelope, handed_on, in_both};
use crate::{
    both_families,
    frame::{Packet, Transport},
    node::{Node, Verdict},
    world::{Backends, Family},
};

/// Ways in which a backend drains.
const WAYS: [&str; 4] = [
    r#""state":"Terminating","serving":true"#,
    r#""state":"Terminating""#,
    r#""state":"NotReady""#,
    r#""weight":0"#,
];

/// A service that selects by Maglev between a backend here and one at the other node, which drains in this way.
fn event(way: &str) -> String {
    let with_draining = |ip: &str, here: &str| {
        let here = format!(r#"{{"ip":"{here}","port":8080,"local":true}}"#);
        let draining = format!(r#"{{"ip":"{ip}","port":8080,"node":"b",{way}}}"#);
        (here.clone(), format!("{here},{draining}"))
    };
    let (v4, v4_too) = with_draining("10.1.2.3", "10.1.1.3");
    let (v6, v6_too) = with_draining("fd00:10:1:2::3", "fd00:10:1:1::3");
    let event = dsr(Backends::Here);
    assert!(event.contains(&v4) && event.contains(&v6), "{event}");
    event.replace(&v4, &v4_too).replace(&v6, &v6_too).replacen(
        r#""ports""#,
        r#""selection":"maglev","ports""#,
        1,
    )
}

/// A node with that service.
fn node(way: &str) -> Node {
    Node::new([event(way).as_str()])
}

/// Ports of clients, of which either backend would have some.
const PORTS: std::ops::Range<u16> = 40_000..40_016;

both_families!(segments_of_unknown_connections_go_to_where_the_backend_drains(OTHER_V4; OTHER_V6) in in_both);
fn segments_of_unknown_connections_go_to_where_the_backend_drains<A: Family>(other: A)
where
    IpAddr: From<A>,
{
    for way in WAYS {
        let mut node = node(way);
        let mut gone_on = 0;
        for port in PORTS {
            for (transport, frontend) in [
                (Transport::TcpAck, (A::EXTERNAL_IP, 80)),
                (Transport::TcpFin, (A::EXTERNAL_IP, 80)),
                (Transport::Sctp(0), (A::EXTERNAL_IP, 80)),
                (Transport::TcpAck, (A::NODE, 30080)),
                (Transport::TcpAck, (other, 30080)),
            ] {
                let segment = Packet::new(transport, (A::OUTSIDER, port), frontend);
                let here = Verdict::Pass(segment.to((A::LOCAL, 8080)).frame());
                let sent = segment.forwarded().packet();
                // From a first node, which knows the draining backend as little.
                let ran = node.ingress(&envelope(other, A::NODE, &segment.packet()));
                if ran == here {
                    node.pass(1_000_000);
                    continue;
                }
                let on = handed_on(A::NODE, other, &sent);
                assert_eq!(ran, Verdict::Redirect(on), "{way}: {transport:?} {port}");
                gone_on += 1;
                // From a node that has handed it on: no further.
                let ran = node.ingress(&handed_on(other, A::NODE, &segment.packet()));
                assert_eq!(ran, here, "{way}: {transport:?} {port}");
                node.pass(1_000_000);
                // By the client's own choice of this node, which is the first then.
                if frontend.0 != other {
                    let ran = node.ingress(&segment.frame());
                    let on = envelope(A::NODE, other, &sent);
                    assert_eq!(ran, Verdict::Redirect(on), "{way}: {transport:?} {port}");
                }
            }
        }
        let all = u64::try_from(PORTS.len() * 5).unwrap();
        assert!(
            (all / 5..all).contains(&gone_on),
            "{way}: {gone_on} of {all}"
        );
    }
}

both_families!(another_nodes_address_has_the_source_ranges_of_its_frontend_here(OTHER_V4; OTHER_V6) in in_both);
fn another_nodes_address_has_the_source_ranges_of_its_frontend_here<A: Family>(other: A)
where
    IpAddr: From<A>,
{
    let own = IpAddr::from(A::NODE);
    let at_node = format!(
        r#""load_balancer_ips":["{own}"],"load_balancer_source_ranges":["198.51.100.0/24","2001:db8:51::/48"],"external_ips""#
    );
    let event = event(WAYS[0]).replacen(r#""external_ips""#, &at_node, 1);
    let mut node = Node::new([event.as_str()]);
    let mut gone_on = 0;
    for port in PORTS {
        let segment = Packet::new(Transport::TcpAck, (A::OUTSIDER, port), (other, 80));
        let on = handed_on(A::NODE, other, &segment.forwarded().packet());
        let ran = node.ingress(&envelope(other, A::NODE, &segment.packet()));
        gone_on += usize::from(ran == Verdict::Redirect(on));
        node.pass(1_000_000);
    }
    let all = PORTS.len();
    assert!((all / 5..all).contains(&gone_on), "{gone_on} of {all}");
}

both_families!(what_may_begin_a_connection_has_no_draining_backend(OTHER_V4; OTHER_V6) in in_both);
fn what_may_begin_a_connection_has_no_draining_backend<A: Family>(other: A)
where
    IpAddr: From<A>,
{
    for way in WAYS {
        let mut node = node(way);
        for port in PORTS {
            for transport in [Transport::TcpSyn, Transport::Udp, Transport::Sctp(1)] {
                let packet = Packet::new(transport, (A::OUTSIDER, port), (A::EXTERNAL_IP, 80));
                let at_backend = packet.to((A::LOCAL, 8080));
                let ran = node.ingress(&envelope(other, A::NODE, &packet.packet()));
                let here = Verdict::Pass(at_backend.frame());
                assert_eq!(ran, here, "{way}: {transport:?} {port}");
            }
            // And its connection stays here.
            let syn = Packet::new(Transport::TcpSyn, (A::OUTSIDER, port), (A::EXTERNAL_IP, 80));
            let reply = syn.to((A::LOCAL, 8080)).with(Transport::TcpSynAck).answer();
            node.egress(&reply.frame());
            let segment = syn.with(Transport::TcpAck);
            let ran = node.ingress(&envelope(other, A::NODE, &segment.packet()));
            let here = Verdict::Pass(segment.to((A::LOCAL, 8080)).frame());
            assert_eq!(ran, here, "{way}: {port}");
        }
        assert_eq!(counted(&node, "wrapped"), 0, "{way}");
    }
}

both_families!(fragments_follow_a_segment_to_where_the_backend_drains(OTHER_V4; OTHER_V6) in in_both);
fn fragments_follow_a_segment_to_where_the_backend_drains<A: Family>(other: A)
where
    IpAddr: From<A>,
{
    let mut node = node(WAYS[0]);
    let mut gone_on = 0;
    for port in PORTS {
        let segment = Packet::new(Transport::TcpAck, (A::OUTSIDER, port), (A::EXTERNAL_IP, 80))
            .of_payload(200);
        let came = segment.fragments(port, 48);
        let on_the_way = segment.forwarded().fragments(port, 48);
        for (place, (came, on_the_way)) in came.iter().zip(&on_the_way).enumerate() {
            let ran = node.past_driver(&envelope(other, A::NODE, came));
            let on = Verdict::Redirect(handed_on(A::NODE, other, on_the_way));
            if place == 0 && ran != on {
                break;
            }
            assert_eq!(ran, on, "{port}: {place}");
            gone_on += 1;
            if place > 0 {
                let again = handed_on(other, A::NODE, came);
                let untouched = Verdict::Pass(again.clone());
                assert_eq!(node.past_driver(&again), untouched, "not to and fro");
            }
        }
    }
    assert!(gone_on > 0);
}
