//! A client's connection to a backend itself beside one through a service, with `--redirect`.

use super::{
    both_families,
    frame::{Packet, Transport, source_of},
    node::Verdict,
    world::{Backends, Family, in_network, node_with},
};

use Transport::{TcpAck, TcpSyn, TcpSynAck};

both_families!(a_reply_of_a_direct_connection_is_translated_once_with_redirect in in_network);
fn a_reply_of_a_direct_connection_is_translated_once_with_redirect<A: Family>() {
    for redirect in [false, true] {
        let mut node = node_with(|options| options.redirect = redirect, Backends::Here);
        let client = (A::OUTSIDER, 40_000);
        let backend = (A::LOCAL, 8080);
        let through = Packet::new(TcpSyn, client, (A::CLUSTER_IP, 80));
        for transport in [TcpSyn, TcpAck] {
            let request = through.with(transport);
            let sent = node.ingress(&request.frame());
            assert_eq!(sent, Verdict::Pass(request.to(backend).frame()));
        }
        // Another sequence number than the service's, as of any other connection.
        let mut syn = through.to(backend).frame();
        let ports = syn.len() - through.payload.len() - 20;
        syn[ports + 4] ^= 0x40;
        let checksum = u16::from_be_bytes([syn[ports + 16], syn[ports + 17]]);
        let sum = u32::from(!checksum) + 0x4000;
        let sum = !((sum & 0xffff) as u16 + (sum >> 16) as u16);
        syn[ports + 16..ports + 18].copy_from_slice(&sum.to_be_bytes());
        let moved = (A::OUTSIDER, source_of::<A>(&node.ingress(&syn).passed()).1);
        assert_ne!(moved, client);
        for transport in [TcpSynAck, TcpAck] {
            let reply = Packet::new(transport, backend, moved);
            // By the stack, which has it leave by the client's interface.
            let frame = node.ingress(&reply.frame()).passed();
            let sent = node.egress(&frame);
            assert_eq!(sent, Verdict::Pass(reply.to(client).frame()), "{redirect}");
        }
    }
}
