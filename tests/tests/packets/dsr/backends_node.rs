//! Packets from envelopes at a backend's node: they are its own backends', whatever it knows of their connection.

use std::{collections::BTreeMap, net::IpAddr};

use super::world::{OTHER_V4, OTHER_V6, counted, dsr, envelope, in_both, node};
use crate::{
    both_families,
    frame::{Packet, Transport, destination_of},
    node::{Node, Verdict},
    world::{Backends, Family},
};

both_families!(a_segment_of_an_unknown_connection_is_translated_also_while_shunt_takes_over(OTHER_V4; OTHER_V6) in in_both);
fn a_segment_of_an_unknown_connection_is_translated_also_while_shunt_takes_over<A: Family>(other: A)
where
    IpAddr: From<A>,
{
    let mut node = node(Backends::Here);
    let segments = [Transport::TcpAck, Transport::TcpFin];
    let mut ports = 40_000..;
    for leaves_unknown in [false, true] {
        node.leave_unknown(leaves_unknown);
        for (transport, port) in segments.into_iter().zip(&mut ports) {
            for frontend in [(A::EXTERNAL_IP, 80), (A::NODE, 30080)] {
                let segment = Packet::new(transport, (A::OUTSIDER, port), frontend);
                let at_backend = segment.to((A::LOCAL, 8080));
                let passed = Verdict::Pass(at_backend.frame());
                // From another node, or by the client's own choice of this one.
                let frame = envelope(other, A::NODE, &segment.packet());
                assert_eq!(node.ingress(&frame), passed, "{transport:?}");
                let direct = segment.from((A::OUTSIDER, port + 1000));
                let passed = Verdict::Pass(direct.to((A::LOCAL, 8080)).frame());
                assert_eq!(node.ingress(&direct.frame()), passed, "{transport:?}");
                // And is a connection by then, whose backend answers from the frontend.
                let reply = at_backend.with(Transport::TcpAck).answer();
                let restored = reply.from(frontend).frame();
                assert_eq!(node.egress(&reply.frame()), Verdict::Pass(restored));
                node.pass(1_000_000);
            }
        }
    }
}

both_families!(a_syn_ack_or_reset_of_an_unknown_connection_is_dropped_with_its_envelope(OTHER_V4; OTHER_V6) in in_both);
fn a_syn_ack_or_reset_of_an_unknown_connection_is_dropped_with_its_envelope<A: Family>(other: A)
where
    IpAddr: From<A>,
{
    let mut node = node(Backends::Here);
    for transport in [Transport::TcpRst, Transport::TcpSynAck] {
        for frontend in [(A::EXTERNAL_IP, 80), (A::NODE, 30080)] {
            let segment = Packet::new(transport, (A::OUTSIDER, 40_000), frontend);
            let frame = envelope(other, A::NODE, &segment.packet());
            assert_eq!(node.ingress(&frame), Verdict::Drop, "{transport:?}");
            // By the client's own choice of this node, it may be the host's.
            let passed = Verdict::Pass(segment.frame());
            assert_eq!(node.ingress(&segment.frame()), passed, "{transport:?}");
        }
    }
    assert!(node.connections().is_empty());
}

both_families!(elsewhere_a_segment_of_an_unknown_connection_is_left_alone_meanwhile(OTHER_V4; OTHER_V6) in in_both);
fn elsewhere_a_segment_of_an_unknown_connection_is_left_alone_meanwhile<A: Family>(other: A)
where
    IpAddr: From<A>,
{
    // A ClusterIP has no mode, whatever its service's is.
    let mut node = node(Backends::Here);
    node.leave_unknown(true);
    let client = (A::OUTSIDER, 40_000);
    let inside = Packet::new(Transport::TcpAck, client, (A::CLUSTER_IP, 80));
    for frame in [inside.frame(), envelope(other, A::NODE, &inside.packet())] {
        assert_eq!(node.ingress(&frame), Verdict::Pass(frame));
    }
    assert!(node.connections().is_empty());
}

/// Number of flows of a test.
const FLOWS: u16 = 40;

/// The cluster with these backends of this node and their weights, by the last byte of their addresses, and two
/// heavier ones at each of two other nodes.
fn mixed(own: &[(u8, u32)], fields: &str) -> String {
    let backend =
        |net: u8, last: u8, weight: u32, node: &str| {
            let local = node == "a";
            [format!("10.1.{net}.{last}"), format!("fd00:10:1:{net}::{last}")].map(|ip| {
            format!(
                r#"{{"ip":"{ip}","port":8080,"local":{local},"weight":{weight},"node":"{node}"}}"#
            )
        })
        };
    let own = own.iter().map(|(last, weight)| (1, *last, *weight, "a"));
    let others = [
        (2, 3, 9, "b"),
        (2, 4, 9, "b"),
        (3, 3, 9, "c"),
        (3, 4, 9, "c"),
    ];
    let backends: Vec<String> = own
        .chain(others)
        .flat_map(|(net, last, weight, node)| backend(net, last, weight, node))
        .collect();
    let backends = format!("[{}]", backends.join(","));
    let mut event: serde_json::Value = serde_json::from_str(&dsr(Backends::Elsewhere)).unwrap();
    event["nodes"]["c"] = serde_json::json!(["192.168.16.30", "2001:db8:16::30"]);
    for name in ["TCP", "UDP", "SCTP"] {
        event["services"][0]["backends"][name] = serde_json::from_str(&backends).unwrap();
    }
    event
        .to_string()
        .replacen(r#""ports""#, &format!(r#"{fields}"ports""#), 1)
}

/// Returns the number of the client's flows, each in an envelope from another node, by the backend that they get.
fn shares<A: Family>(node: &mut Node, other: A, flows: u16) -> BTreeMap<Vec<u8>, u16>
where
    IpAddr: From<A>,
{
    let mut shares = BTreeMap::new();
    for port in 40_000..40_000 + flows {
        let client = (A::OUTSIDER, port);
        let packet = Packet::new(Transport::TcpSyn, client, (A::EXTERNAL_IP, 80));
        let passed = node.ingress(&envelope(other, A::NODE, &packet.packet()));
        let frame = passed.passed();
        let (backend, _) = destination_of::<A>(&frame);
        assert_eq!(frame, packet.to((backend, 8080)).frame());
        *shares.entry(backend.as_ref().to_vec()).or_default() += 1;
    }
    // And none of it is remembered.
    node.pass(1_000_000);
    shares
}

const SELECTIONS: [&str; 2] = [r#""selection":"weighted","#, r#""selection":"maglev","#];

/// The field that keeps a client at one backend.
const STAYS: &str = r#""session_affinity_timeout":60,"#;

/// A node with room for some tables.
fn with_room(event: &str) -> Node {
    Node::with(|options| options.sizes.slots = 16_384, [event])
}

both_families!(all_flows_in_envelopes_are_its_own_backends_however_few_these_are(OTHER_V4; OTHER_V6) in in_both);
fn all_flows_in_envelopes_are_its_own_backends_however_few_these_are<A: Family>(other: A)
where
    IpAddr: From<A>,
{
    let mut node = with_room(&dsr(Backends::Nowhere));
    let mut unwrapped = 0;
    for selection in SELECTIONS {
        for affinity in ["", STAYS] {
            let fields = format!("{selection}{affinity}");
            node.apply(&mixed(&[(3, 1)], &fields));
            let shares = shares(&mut node, other, FLOWS);
            let expected = BTreeMap::from([(A::LOCAL.as_ref().to_vec(), FLOWS)]);
            assert_eq!(shares, expected, "{fields}");
            unwrapped += u64::from(FLOWS);
            assert_eq!(counted(&node, "unwrapped"), unwrapped);
            assert_eq!(counted(&node, "wrapped"), 0);
        }
    }
}

both_families!(its_own_backends_have_their_shares_of_what_comes_in_envelopes(OTHER_V4; OTHER_V6) in in_both);
fn its_own_backends_have_their_shares_of_what_comes_in_envelopes<A: Family>(other: A)
where
    IpAddr: From<A>,
{
    const MANY: u16 = 400;

    let mut node = with_room(&dsr(Backends::Nowhere));
    for selection in SELECTIONS {
        node.apply(&mixed(&[(3, 3), (4, 1)], selection));
        let shares = shares(&mut node, other, MANY);
        let share = |backend: A| i32::from(shares[backend.as_ref()]);
        assert_eq!(share(A::LOCAL) + share(A::LOCAL_TOO), i32::from(MANY));
        // Six standard deviations.
        let ideal = i32::from(MANY) * 3 / 4;
        assert!(
            (share(A::LOCAL) - ideal).abs() < 52,
            "{selection}: {shares:?}"
        );
        // With affinity, all of the one client.
        node.apply(&mixed(&[(3, 3), (4, 1)], &format!("{selection}{STAYS}")));
        let shares = self::shares(&mut node, other, FLOWS);
        assert_eq!(shares.len(), 1, "{selection}: {shares:?}");
    }
}
