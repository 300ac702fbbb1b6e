//! Packets of the host's own that go out from an address and port that SNAT has given.

use super::{
    both_families,
    frame::{Packet, Transport, source_of},
    node::{Node, Verdict},
    world::{Backends, Family, in_network, node, open_transit},
};

use Transport::{TcpAck, TcpSyn, TcpSynAck, Udp};

/// A client outside with a connection through SNAT, and the host with one of its own to the same
/// backend from the same port.
struct Two<A> {
    request: Packet<A>,
    at_backend: Packet<A>,
    own: Packet<A>,
    own_at_backend: Packet<A>,
}

impl<A: Family> Two<A> {
    /// Opens both, the client's first.
    fn open(node: &mut Node, opening: Transport, port: u16) -> Self {
        let request = Packet::new(opening, (A::OUTSIDER, port), (A::EXTERNAL_IP, 80));
        let at_backend = open_transit(node, &request);
        let mut two = Self {
            own: at_backend.clone(),
            own_at_backend: at_backend.clone(),
            request,
            at_backend,
        };
        if opening == TcpSyn {
            two.snat(node, TcpSynAck, TcpAck);
        }
        let Verdict::Pass(frame) = node.egress(&two.own.frame()) else {
            panic!("not passed on");
        };
        two.own_at_backend = two.own.from(source_of(&frame));
        assert_eq!(frame, two.own_at_backend.frame(), "nothing else is changed");
        assert_eq!(two.own_at_backend.source.0, A::NODE);
        assert_ne!(two.own_at_backend.source, two.at_backend.source);
        two
    }

    /// The backend and then the client send a packet in the client's connection.
    #[track_caller]
    fn snat(&self, node: &mut Node, backend: Transport, client: Transport) {
        let (at_backend, request) = (&self.at_backend, &self.request);
        let reply = Packet::new(backend, at_backend.destination, at_backend.source);
        let restored = reply.from(request.destination).to(request.source);
        let sent = node.ingress(&reply.frame());
        assert_eq!(sent, Verdict::Redirect(restored.forwarded().frame()));
        let sent = node.ingress(&request.with(client).frame());
        assert_eq!(sent, Verdict::Redirect(at_backend.with(client).frame()));
    }

    /// The backend and then the host send a packet in the host's connection.
    #[track_caller]
    fn own(&self, node: &mut Node, backend: Transport, host: Transport) {
        let at_backend = &self.own_at_backend;
        let reply = Packet::new(backend, at_backend.destination, at_backend.source);
        let restored = reply.to(self.own.source);
        let sent = node.ingress(&reply.frame());
        assert_eq!(sent, Verdict::Pass(restored.frame()));
        let sent = node.egress(&self.own.with(host).frame());
        assert_eq!(sent, Verdict::Pass(at_backend.with(host).frame()));
    }
}

both_families!(a_connection_of_the_host_s_gives_way_to_one_that_has_its_port in in_network);
fn a_connection_of_the_host_s_gives_way_to_one_that_has_its_port<A: Family>() {
    let mut node = node(Backends::Elsewhere);
    for port in 40_000..40_010 {
        let two = Two::<A>::open(&mut node, TcpSyn, port);
        two.own(&mut node, TcpSynAck, TcpAck);
        for _ in 0..2 {
            two.snat(&mut node, TcpAck, TcpAck);
            two.own(&mut node, TcpAck, TcpAck);
        }
    }
}

both_families!(a_flow_of_the_host_s_gives_way_to_one_that_has_its_port in in_network);
fn a_flow_of_the_host_s_gives_way_to_one_that_has_its_port<A: Family>() {
    let mut node = node(Backends::Elsewhere);
    for port in 40_000..40_010 {
        let two = Two::<A>::open(&mut node, Udp, port);
        for _ in 0..2 {
            two.own(&mut node, Udp, Udp);
            two.snat(&mut node, Udp, Udp);
        }
    }
}

both_families!(who_is_in_nobody_s_way_keeps_the_port in in_network);
fn who_is_in_nobody_s_way_keeps_the_port<A: Family>() {
    let mut node = node(Backends::Elsewhere);
    // From here on packets of the host's are looked up.
    let two = Two::<A>::open(&mut node, TcpSyn, 40_000);
    let (address, port) = two.own.source;
    let before = node.connections().len();
    for transport in [TcpSyn, TcpAck, Udp] {
        for packet in [
            two.own.from((address, port + 1)),
            two.own.to((A::REMOTE, 8081)),
            two.own.from((A::POD, port)),
        ] {
            if packet.source == two.own_at_backend.source {
                continue;
            }
            let frame = packet.with(transport).frame();
            assert_eq!(node.egress(&frame), Verdict::Pass(frame.clone()));
        }
    }
    assert_eq!(node.connections().len(), before);
}
