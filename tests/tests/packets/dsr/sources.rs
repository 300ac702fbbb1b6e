//! Sources of envelopes, if that is a range of addresses.

use std::{collections::BTreeSet, net::IpAddr};

use ipnet::IpNet;

use super::world::{OTHER_V4, OTHER_V6, counted, dsr, envelope, in_both};
use crate::{
    both_families,
    frame::{Packet, Transport, framed, source_of},
    node::{Node, Verdict},
    world::{Backends, Family, V4, V6},
};

/// The first range of each family is what envelopes come from.
const RANGES: [&str; 4] = [
    "172.16.0.0/12",
    "fd00:5::/64",
    "100.64.0.0/10",
    "fd00:6::/112",
];

/// A node with these ranges.
fn node(backends: Backends) -> Node {
    let ranges = RANGES.map(|range| range.parse().unwrap());
    let event = dsr(backends);
    Node::with(
        |options| options.dsr_sources = ranges.into(),
        [event.as_str()],
    )
}

/// Returns whether the address is in the range at this place.
fn is_in(place: usize, address: impl Into<IpAddr>) -> bool {
    let range: IpNet = RANGES[place].parse().unwrap();
    range.contains(&address.into())
}

both_families!(each_flow_has_its_own_source(OTHER_V4, 0; OTHER_V6, 1) in in_both);
fn each_flow_has_its_own_source<A: Family>(other: A, place: usize)
where
    IpAddr: From<A>,
{
    let mut node = node(Backends::Elsewhere);
    let mut sources = BTreeSet::new();
    for port in 40_000..40_100 {
        let opens = Packet::new(Transport::TcpSyn, (A::OUTSIDER, port), (A::EXTERNAL_IP, 80));
        let mut of_flow = BTreeSet::new();
        for packet in [opens.clone(), opens.with(Transport::TcpAck)] {
            let Verdict::Redirect(sent) = node.ingress(&packet.frame()) else {
                panic!("not sent on");
            };
            let (source, _) = source_of::<A>(&sent);
            assert!(is_in(place, source), "{:?}", IpAddr::from(source));
            let wrapped = envelope(source, other, &packet.forwarded().packet());
            assert_eq!(sent, wrapped);
            of_flow.insert(IpAddr::from(source));
        }
        assert_eq!(of_flow.len(), 1, "one flow, one source");
        sources.extend(of_flow);
    }
    assert!(sources.len() > 95, "{} sources of 100 flows", sources.len());
}

both_families!(the_fragments_of_a_datagram_come_from_the_nodes_own_address(OTHER_V4; OTHER_V6) in in_both);
fn the_fragments_of_a_datagram_come_from_the_nodes_own_address<A: Family>(other: A)
where
    IpAddr: From<A>,
{
    let mut node = node(Backends::Elsewhere);
    let udp = Packet::new(Transport::Udp, (A::OUTSIDER, 40_000), (A::EXTERNAL_IP, 80));
    let sent = udp.of_payload(200).fragments(7, 48);
    let forwarded = udp.of_payload(200).forwarded().fragments(7, 48);
    for (part, forwarded) in sent.iter().zip(forwarded) {
        let wrapped = envelope(A::NODE, other, &forwarded);
        assert_eq!(node.ingress(&framed::<A>(part)), Verdict::Redirect(wrapped));
    }
}

#[test]
fn an_envelope_from_any_of_the_ranges_is_taken_out() {
    fn check<A: Family>(within: [A; 2], without: A)
    where
        IpAddr: From<A>,
    {
        let mut node = node(Backends::Here);
        for (port, source) in (40_000..).zip(within) {
            let packet = Packet::new(Transport::TcpSyn, (A::OUTSIDER, port), (A::EXTERNAL_IP, 80));
            let frame = envelope(source, A::NODE, &packet.packet());
            let at_backend = packet.to((A::LOCAL, 8080)).frame();
            assert_eq!(node.ingress(&frame), Verdict::Pass(at_backend));
        }
        assert_eq!(counted(&node, "unwrapped"), 2);
        let packet = Packet::new(
            Transport::TcpSyn,
            (A::OUTSIDER, 41_000),
            (A::EXTERNAL_IP, 80),
        );
        let frame = envelope(without, A::NODE, &packet.packet());
        assert_eq!(node.ingress(&frame), Verdict::Pass(frame));
    }
    let v6 = |net: u8, last: u8| {
        let mut address = [0; 16];
        address[..4].copy_from_slice(&[0xfd, 0, 0, net]);
        address[15] = last;
        address
    };
    in_both(|| {
        check::<V4>([[172, 31, 255, 1], [100, 64, 0, 0]], [172, 32, 0, 1]);
        check::<V6>([v6(5, 9), v6(6, 255)], v6(7, 1));
    });
}
