//! Congestion marks of packets and their envelopes: RFC 6040.

use std::net::IpAddr;

use super::world::{OTHER_V4, OTHER_V6, counted, envelope, in_both, node};
use crate::{
    both_families,
    frame::{ETHERNET, Packet, Transport, framed},
    node::Verdict,
    world::{Backends, Family},
};

/// The values of the two bits (RFC 3168 section 5).
const NOT_CAPABLE: u8 = 0;
const CAPABLE_1: u8 = 1;
const CAPABLE_0: u8 = 2;
const EXPERIENCED: u8 = 3;

/// The packet with this mark.
fn marked(mut packet: Vec<u8>, mark: u8) -> Vec<u8> {
    if packet[0] >> 4 == 6 {
        packet[1] = packet[1] & 0xcf | mark << 4;
        return packet;
    }
    packet[1] = packet[1] & 0xfc | mark;
    packet[10..12].fill(0);
    let words = packet[..20].chunks_exact(2);
    let mut sum: u32 = words
        .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    packet[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    packet
}

/// An envelope with one mark, around a packet with another one.
fn marked_envelope<A: Family>(from: A, to: A, outer: u8, packet: Vec<u8>, inner: u8) -> Vec<u8>
where
    IpAddr: From<A>,
{
    let frame = envelope(from, to, &marked(packet, inner));
    framed::<A>(&marked(frame[ETHERNET..].to_vec(), outer))
}

both_families!(an_envelope_says_of_congestion_what_its_packet_says(OTHER_V4; OTHER_V6) in in_both);
fn an_envelope_says_of_congestion_what_its_packet_says<A: Family>(other: A)
where
    IpAddr: From<A>,
{
    let mut node = node(Backends::Elsewhere);
    let packet = Packet::new(Transport::Udp, (A::OUTSIDER, 40_000), (A::EXTERNAL_IP, 80));
    for mark in [NOT_CAPABLE, CAPABLE_1, CAPABLE_0, EXPERIENCED] {
        let came = framed::<A>(&marked(packet.packet(), mark));
        let inside = packet.forwarded().packet();
        let went = marked_envelope(A::NODE, other, mark, inside, mark);
        assert_eq!(node.ingress(&came), Verdict::Redirect(went), "{mark}");
    }
}

/// A packet's congestion mark when it comes out, by its own (rows) and by its envelope's, each in the
/// order of [`ORDER`]: figure 4 of RFC 6040, where nothing is a drop.
const COMBINED: [[Option<u8>; 4]; 4] = [
    [
        Some(NOT_CAPABLE),
        Some(NOT_CAPABLE),
        Some(NOT_CAPABLE),
        None,
    ],
    [
        Some(CAPABLE_0),
        Some(CAPABLE_0),
        Some(CAPABLE_1),
        Some(EXPERIENCED),
    ],
    [
        Some(CAPABLE_1),
        Some(CAPABLE_1),
        Some(CAPABLE_1),
        Some(EXPERIENCED),
    ],
    [Some(EXPERIENCED); 4],
];
const ORDER: [u8; 4] = [NOT_CAPABLE, CAPABLE_0, CAPABLE_1, EXPERIENCED];

both_families!(a_packet_has_what_its_envelope_met_on_the_way(OTHER_V4; OTHER_V6) in in_both);
fn a_packet_has_what_its_envelope_met_on_the_way<A: Family>(other: A)
where
    IpAddr: From<A>,
{
    let mut node = node(Backends::Here);
    let packet = Packet::new(Transport::Udp, (A::OUTSIDER, 40_000), (A::EXTERNAL_IP, 80));
    let at_backend = packet.to((A::LOCAL, 8080)).packet();
    for (inner, row) in ORDER.into_iter().zip(COMBINED) {
        for (outer, combined) in ORDER.into_iter().zip(row) {
            let frame = marked_envelope(other, A::NODE, outer, packet.packet(), inner);
            let verdict = match combined {
                Some(mark) => Verdict::Pass(framed::<A>(&marked(at_backend.clone(), mark))),
                None => Verdict::Drop,
            };
            assert_eq!(node.ingress(&frame), verdict, "{inner} in {outer}");
        }
    }
    assert_eq!(counted(&node, "drop_congestion"), 1);
    assert_eq!(counted(&node, "unwrapped"), 15);
}
