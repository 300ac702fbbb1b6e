//! The segment sizes that backends announce.

use std::net::IpAddr;

use super::world::{OTHER_V4, OTHER_V6, dsr, envelope, in_both};
use crate::{
    both_families,
    frame::{Packet, Transport, framed},
    node::{Node, Verdict},
    world::{Backends, Family},
};

/// The TCP packet with the options that are its payload.
fn with_options<A: Family>(packet: &Packet<A>) -> Vec<u8> {
    let mut frame = packet.frame();
    let header = frame.len() - packet.payload.len() - 20;
    let words = (20 + packet.payload.len()) / 4;
    let word = |frame: &[u8], place: usize| u16::from_be_bytes([frame[place], frame[place + 1]]);
    let (place, checksum) = (header + 12, header + 16);
    let was = word(&frame, place);
    frame[place] = (words as u8) << 4;
    // RFC 1624.
    let sum = [!word(&frame, checksum), !was, word(&frame, place)];
    let mut sum: u32 = sum.map(u32::from).iter().sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    frame[checksum..checksum + 2].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    frame
}

/// Returns options with a peer's MSS, before and after, at this offset.
fn announcing(place: usize, mss: u16) -> Vec<u8> {
    let [high, low] = mss.to_be_bytes();
    let mut options = vec![1; place];
    options.extend([2, 4, high, low]);
    options.extend([8, 10, 1, 2, 3, 4, 5, 6, 7, 8]);
    options.resize(options.len().next_multiple_of(4), 0);
    options
}

both_families!(a_backend_announces_what_fits_into_an_envelope(OTHER_V4, 20; OTHER_V6, 40) in in_both);
fn a_backend_announces_what_fits_into_an_envelope<A: Family>(other: A, envelope_length: u16)
where
    IpAddr: From<A>,
{
    let resync = dsr(Backends::Here);
    let is_on = |is_on| Node::with(|options| options.lower_mss = is_on, [resync.as_str()]);
    let (mut lowering, mut leaving) = (is_on(true), is_on(false));
    let envelopes = [(A::EXTERNAL_IP, 80), (A::NODE, 30080), (other, 30080)];
    for (port, place) in (40_000..).zip([0, 1, 2, 3, 5]) {
        for (frontend, lowered) in envelopes
            .map(|frontend| (frontend, envelope_length))
            .into_iter()
            .chain([((A::CLUSTER_IP, 80), 0)])
        {
            let syn = Packet::new(Transport::TcpSyn, (A::OUTSIDER, port), frontend);
            let frame = if lowered > 0 {
                envelope(other, A::NODE, &syn.packet())
            } else {
                syn.frame()
            };
            for (node, lowered) in [(&mut lowering, lowered), (&mut leaving, 0)] {
                let passed = node.ingress(&frame);
                let at_backend = syn.to((A::LOCAL, 8080));
                assert_eq!(passed, Verdict::Pass(at_backend.frame()));
                let answer = |mss| Packet {
                    payload: announcing(place, mss),
                    ..at_backend.answer()
                };
                let came = with_options(&answer(1460));
                let went = with_options(&answer(1460 - lowered).from(frontend));
                // Also when it is sent again.
                for _ in 0..2 {
                    let sent = node.egress(&came);
                    assert_eq!(sent, Verdict::Pass(went.clone()), "{frontend:?} {place}");
                }
                // One without any, and with so little that nothing is left.
                for options in [vec![], announcing(0, envelope_length)] {
                    let answer = Packet {
                        payload: options,
                        ..at_backend.answer()
                    };
                    let went = with_options(&answer.from(frontend));
                    assert_eq!(node.egress(&with_options(&answer)), Verdict::Pass(went));
                }
                node.pass(1_000_000);
            }
        }
    }
}

both_families!(what_is_behind_a_fragment_in_its_frame_is_no_part_of_an_option(OTHER_V4; OTHER_V6) in in_both);
fn what_is_behind_a_fragment_in_its_frame_is_no_part_of_an_option<A: Family>(other: A)
where
    IpAddr: From<A>,
{
    let resync = dsr(Backends::Here);
    let mut node = Node::with(|options| options.lower_mss = true, [resync.as_str()]);
    let frontend = (A::EXTERNAL_IP, 80);
    let syn = Packet::new(Transport::TcpSyn, (A::OUTSIDER, 40_000), frontend);
    let at_backend = syn.to((A::LOCAL, 8080));
    let passed = node.ingress(&envelope(other, A::NODE, &syn.packet()));
    assert_eq!(passed, Verdict::Pass(at_backend.frame()));
    // Its last byte is in the next fragment.
    let answer = Packet {
        payload: announcing(1, 1460),
        ..at_backend.answer()
    };
    let part = 24;
    let mut first = framed::<A>(&answer.fragments(7, part)[0]);
    let header = first.len() - part;
    first[header + 12] = ((20 + answer.payload.len() as u8) / 4) << 4;
    for padding in [0, 4] {
        let frame = [&first[..], &[0; 4][..padding]].concat();
        assert_eq!(node.egress(&frame), Verdict::Drop, "{padding}");
    }
}
