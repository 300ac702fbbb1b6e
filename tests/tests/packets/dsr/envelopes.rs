//! The envelopes that are taken out, and the tuples that mean one.

use std::net::IpAddr;

use super::world::{OTHER_V4, OTHER_V6, counted, dsr, envelope, in_both, node};
use crate::{
    both_families,
    frame::{Packet, Transport, framed},
    node::{Node, Verdict},
    world::{self, Backends, Family, open_transit},
};

both_families!(an_external_ip_may_be_the_other_nodes_address(OTHER_V4; OTHER_V6) in in_both);
fn an_external_ip_may_be_the_other_nodes_address<A: Family>(other: A)
where
    IpAddr: From<A>,
{
    let quoted = |ip: A| format!(r#""{}""#, IpAddr::from(ip));
    let event = dsr(Backends::Here).replace(&quoted(A::EXTERNAL_IP), &quoted(other));
    let mut node = Node::new([event.as_str()]);
    let frontend = (other, 80);
    let packet = Packet::new(Transport::TcpSyn, (A::OUTSIDER, 40_000), frontend);
    let frame = envelope(other, A::NODE, &packet.packet());
    let at_backend = packet.to((A::LOCAL, 8080));
    assert_eq!(node.ingress(&frame), Verdict::Pass(at_backend.frame()));
    let reply = at_backend.answer();
    let restored = reply.from(frontend).frame();
    assert_eq!(node.egress(&reply.frame()), Verdict::Pass(restored));
}

both_families!(an_envelope_that_is_not_all_there_or_shorter_than_its_packet_passes_untouched(OTHER_V4; OTHER_V6) in in_both);
fn an_envelope_that_is_not_all_there_or_shorter_than_its_packet_passes_untouched<A: Family>(
    other: A,
) where
    IpAddr: From<A>,
{
    let mut node = node(Backends::Here);
    let client = (A::OUTSIDER, 40_000);
    let packet = Packet::new(Transport::Udp, client, (A::EXTERNAL_IP, 80))
        .of_payload(20)
        .packet();
    let mut cut = envelope(other, A::NODE, &[&packet[..], &[7]].concat());
    cut.pop();
    let (last, rest) = packet.split_last().unwrap();
    let mut short = envelope(other, A::NODE, rest);
    short.push(*last);
    for frame in [cut, short] {
        assert_eq!(node.ingress(&frame), Verdict::Pass(frame));
    }
    assert_eq!(counted(&node, "unwrapped"), 0);
}

both_families!(what_follows_a_syn_into_an_envelope_does_so_too_whatever_had_its_tuple_before in in_both);
fn what_follows_a_syn_into_an_envelope_does_so_too_whatever_had_its_tuple_before<A: Family>() {
    let mut node = node(Backends::Here);
    let client = (A::OUTSIDER, 40_000);
    let packet = Packet::new(Transport::TcpSyn, client, (A::EXTERNAL_IP, 80));
    node.ingress(&packet.frame());
    assert_eq!(node.connections().len(), 1);
    node.apply(&dsr(Backends::Elsewhere));
    for transport in [Transport::TcpSyn, Transport::TcpAck] {
        node.ingress(&packet.with(transport).frame());
    }
    assert_eq!(counted(&node, "wrapped"), 2);
    assert_eq!(node.connections().len(), 0);
}

both_families!(fragments_for_a_client_without_a_port_go_to_it_in_no_envelope in in_both);
fn fragments_for_a_client_without_a_port_go_to_it_in_no_envelope<A: Family>() {
    let mut node = world::node(Backends::Elsewhere);
    let frontend = (A::EXTERNAL_IP, 80);
    let packet = Packet::new(Transport::Udp, (A::OUTSIDER, 0), frontend);
    let at_backend = open_transit(&mut node, &packet);
    let reply = at_backend.answer().of_payload(200);
    let came = reply.fragments(7, 48);
    let restored = reply.from(frontend).to((A::OUTSIDER, 0)).forwarded();
    for (came, went) in came.iter().zip(restored.fragments(7, 48)) {
        let sent = Verdict::Redirect(framed::<A>(&went));
        assert_eq!(node.ingress(&framed::<A>(came)), sent);
    }
}
