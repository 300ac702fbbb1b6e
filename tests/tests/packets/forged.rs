//! Segments that a third party makes up in the name of an established connection's client: they end nothing, and the
//! backend's segments go on to the client. What the client itself sends, and the backend's answer proves, counts.

use std::net::IpAddr;

use shunt_datapath::{
    ConntrackState::{self, Closed, Closing, Established, SynReceived, TimeWait},
    Timeouts,
};

use super::{
    both_families,
    dsr::world::{self as dsr, OTHER_V4, OTHER_V6, envelope},
    frame::{FIN_ACKED, Packet, Transport, destination_of},
    node::{Node, Verdict},
    world::{Backends, Family, cluster, in_network, node, open_transit},
};

use Transport::{TcpAck, TcpAcks, TcpFin, TcpFinAcks, TcpRst, TcpRstAt, TcpSyn, TcpSynAt};

/// Another SYN than the connection's.
const OTHER: u32 = 900_000;

/// Way of a client's packets to the backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// From a pod to a backend of this node, through the stack.
    Here,
    /// From outside to a backend elsewhere.
    Snat,
    /// From outside in an envelope of another node, to a backend of this node.
    Dsr,
}

impl Way {
    const ALL: [Self; 3] = [Self::Here, Self::Snat, Self::Dsr];
}

/// An established connection, and its node.
struct World<A> {
    node: Node,
    way: Way,
    other: A,
    /// The client's packet and what its backend gets of it.
    request: Packet<A>,
    at_backend: Packet<A>,
}

/// The first client's port.
const PORT: u16 = 40_000;

impl<A: Family> World<A>
where
    IpAddr: From<A>,
{
    fn new(way: Way, other: A) -> Self {
        let (node, client, frontend) = match way {
            Way::Here => (node(Backends::Here), A::POD, A::CLUSTER_IP),
            Way::Snat => (node(Backends::Elsewhere), A::OUTSIDER, A::EXTERNAL_IP),
            Way::Dsr => (dsr::node(Backends::Here), A::OUTSIDER, A::EXTERNAL_IP),
        };
        let request = Packet::new(TcpSyn, (client, PORT), (frontend, 80));
        Self {
            node,
            way,
            other,
            at_backend: request.clone(),
            request,
        }
    }

    /// Opens a connection from another port than those before.
    #[track_caller]
    fn begin(&mut self) {
        let home = match self.way {
            Way::Here => cluster(Backends::Here),
            Way::Snat => cluster(Backends::Elsewhere),
            Way::Dsr => dsr::dsr(Backends::Here),
        };
        self.node.apply(&home);
        self.request.source.1 += 1;
        self.at_backend = match self.way {
            Way::Snat => open_transit(&mut self.node, &self.request),
            Way::Here | Way::Dsr => self.request.to((A::LOCAL, 8080)),
        };
        self.client(TcpSyn);
        self.backend(Transport::TcpSynAck);
        self.client(TcpAck);
        self.is(Established);
    }

    /// The frame of a client's packet as it comes to the node.
    fn frame(&self, transport: Transport) -> Vec<u8> {
        let packet = self.request.with(transport);
        match self.way {
            Way::Here | Way::Snat => packet.frame(),
            Way::Dsr => envelope(self.other, A::NODE, &packet.packet()),
        }
    }

    /// A packet in the client's name, which has to reach the connection's backend.
    #[track_caller]
    fn client(&mut self, transport: Transport) {
        let frame = self.frame(transport);
        let sent = self.at_backend.with(transport).frame();
        let sent = match self.way {
            Way::Here | Way::Dsr => Verdict::Pass(sent),
            Way::Snat => Verdict::Redirect(sent),
        };
        assert_eq!(
            self.node.ingress(&frame),
            sent,
            "{:?}: {transport:?}",
            self.way
        );
    }

    /// A packet of the backend's, which has to reach the client as the frontend's.
    #[track_caller]
    fn backend(&mut self, transport: Transport) {
        let Packet {
            source,
            destination,
            ..
        } = self.request;
        let reply = Packet::new(
            transport,
            self.at_backend.destination,
            self.at_backend.source,
        );
        let restored = reply.from(destination).to(source);
        let (sent, expected) = match self.way {
            Way::Here | Way::Dsr => (
                self.node.egress(&reply.frame()),
                Verdict::Pass(restored.frame()),
            ),
            Way::Snat => (
                self.node.ingress(&reply.frame()),
                Verdict::Redirect(restored.forwarded().frame()),
            ),
        };
        assert_eq!(sent, expected, "{:?}: {transport:?}", self.way);
    }

    #[track_caller]
    fn is(&self, state: ConntrackState) {
        let connections = self.node.connections();
        let port = self.request.source.1;
        let own = connections.iter().filter(|one| one.client.port() == port);
        let states: Vec<_> = own.map(|one| one.state).collect();
        assert_eq!(states, [state], "{:?}", self.way);
    }

    /// Returns the number of dropped answers of backends that are gone.
    fn dropped(&self) -> u64 {
        self.node.counters().get("drop_gone").copied().unwrap_or(0)
    }

    /// Has the service other backends.
    fn moves(&mut self) {
        let event = match self.way {
            Way::Here => cluster(Backends::MovedHere),
            Way::Dsr => dsr::dsr(Backends::MovedHere),
            Way::Snat => cluster(Backends::Elsewhere)
                .replace("10.1.2.3", "10.1.2.4")
                .replace("fd00:10:1:2::3", "fd00:10:1:2::4"),
        };
        self.node.apply(&event);
    }

    /// Has the SYN begin another connection, with one of the other backends.
    #[track_caller]
    fn is_replaced_by(&mut self, transport: Transport) {
        let frame = self.frame(transport);
        let sent = match self.node.ingress(&frame) {
            Verdict::Pass(sent) | Verdict::Redirect(sent) => sent,
            Verdict::Drop => panic!("{:?}: dropped", self.way),
        };
        let old = self.at_backend.destination;
        assert_ne!(destination_of::<A>(&sent), old, "{:?}", self.way);
        self.is(ConntrackState::SynSent);
    }
}

/// Packets of a third party.
const ATTACKS: [&[Transport]; 6] = [
    &[TcpFin, TcpSynAt(OTHER)],
    &[TcpRst, TcpSynAt(OTHER)],
    &[TcpRst, TcpRst, TcpRst, TcpSynAt(OTHER), TcpSynAt(OTHER)],
    &[TcpSynAt(OTHER)],
    &[TcpFin, TcpRst, TcpSynAt(OTHER), TcpRst, TcpSynAt(OTHER)],
    // The challenge that answers the SYN is the client's.
    &[TcpSynAt(OTHER), TcpRstAt(OTHER), TcpSynAt(OTHER)],
];

both_families!(only_what_the_backend_proves_ends_a_connection(OTHER_V4; OTHER_V6));
/// All on one node for each way and hook: to load the programs takes longest.
fn only_what_the_backend_proves_ends_a_connection<A: Family + Send + Sync>(other: A)
where
    IpAddr: From<A>,
{
    in_network(|| {
        for way in Way::ALL {
            let mut world = World::new(way, other);
            for attack in ATTACKS {
                for is_gone in [false, true] {
                    made_up_segments_end_nothing(&mut world, attack, is_gone);
                }
            }
            a_made_up_syn_ends_nothing_that_its_client_has_half_closed(&mut world);
            a_fin_counts_when_the_backend_has_acknowledged_it(&mut world);
            for before in [&[][..], &[TcpRst], &[TcpFin]] {
                a_syn_that_the_backend_answers_begins_a_connection_there(&mut world, before);
            }
            a_client_that_a_challenge_reaches_makes_room(&mut world);
            a_backend_that_refuses_a_syn_has_no_connection(&mut world);
            a_client_is_not_held_at_a_backend_that_is_gone_and_silent(&mut world);
            for answer in [
                Transport::TcpSynAckTo(OTHER + 1),
                Transport::TcpRefusal(OTHER + 1),
            ] {
                a_client_that_begins_anew_leaves_a_backend_that_is_gone(&mut world, answer);
            }
        }
    });
}

fn made_up_segments_end_nothing<A: Family>(
    world: &mut World<A>,
    attack: &[Transport],
    is_gone: bool,
) where
    IpAddr: From<A>,
{
    world.begin();
    if is_gone {
        world.moves();
    }
    world.node.pass(3600);
    for segment in attack {
        world.client(*segment);
        // Data that was on its way, and the challenge ACK (RFC 5961 section 4.2).
        world.backend(TcpAck);
    }
    world.client(TcpAck);
    world.is(Established);
    world.node.pass(Timeouts::default().tcp_established - 2);
    world.is(Established);
    world.backend(TcpAck);
    world.client(TcpAck);
}

fn a_made_up_syn_ends_nothing_that_its_client_has_half_closed<A: Family>(world: &mut World<A>)
where
    IpAddr: From<A>,
{
    world.begin();
    world.client(TcpFin);
    world.backend(TcpAcks(FIN_ACKED));
    world.is(Closing);
    for _ in 0..3 {
        world.client(TcpSynAt(OTHER));
        world.backend(TcpAcks(FIN_ACKED));
        world.is(Closing);
    }
    // The end that its server makes is its end.
    world.backend(TcpFinAcks(FIN_ACKED));
    world.client(TcpAck);
    world.is(TimeWait);
    world.moves();
    world.is_replaced_by(TcpSynAt(OTHER));
}

fn a_fin_counts_when_the_backend_has_acknowledged_it<A: Family>(world: &mut World<A>)
where
    IpAddr: From<A>,
{
    world.begin();
    world.client(TcpFin);
    for number in [FIN_ACKED - 1, FIN_ACKED + 1, 77] {
        world.backend(TcpAcks(number));
        world.is(Established);
    }
    world.backend(TcpAcks(FIN_ACKED));
    world.is(Closing);
}

fn a_syn_that_the_backend_answers_begins_a_connection_there<A: Family>(
    world: &mut World<A>,
    before: &[Transport],
) where
    IpAddr: From<A>,
{
    world.begin();
    let opened = world.node.counters()["connection"];
    for segment in before {
        world.client(*segment);
    }
    world.client(TcpSynAt(OTHER));
    world.backend(Transport::TcpSynAckTo(1001));
    world.is(Established);
    world.client(TcpSynAt(OTHER));
    world.backend(Transport::TcpSynAckTo(OTHER + 1));
    world.is(SynReceived);
    assert_eq!(world.node.counters()["connection"], opened + 1);
    world.client(TcpAck);
    world.is(SynReceived);
    // The acknowledgment of that SYN-ACK.
    world.client(TcpAcks(8077));
    world.is(Established);
    world.backend(TcpAck);
    world.node.pass(Timeouts::default().tcp_established - 2);
    world.is(Established);
}

fn a_client_that_a_challenge_reaches_makes_room<A: Family>(world: &mut World<A>)
where
    IpAddr: From<A>,
{
    world.begin();
    world.client(TcpSynAt(OTHER));
    world.backend(TcpAcks(4321));
    world.client(TcpRstAt(4321));
    world.is(Closed);
    world.moves();
    world.is_replaced_by(TcpSynAt(OTHER));
}

fn a_backend_that_refuses_a_syn_has_no_connection<A: Family>(world: &mut World<A>)
where
    IpAddr: From<A>,
{
    world.begin();
    world.client(TcpSynAt(OTHER));
    world.backend(Transport::TcpRefusal(OTHER + 1));
    world.is(Closed);
    world.moves();
    world.is_replaced_by(TcpSynAt(OTHER));
}

fn a_client_is_not_held_at_a_backend_that_is_gone_and_silent<A: Family>(world: &mut World<A>)
where
    IpAddr: From<A>,
{
    world.begin();
    world.moves();
    world.node.pass(10);
    world.client(TcpSynAt(OTHER));
    world.client(TcpSynAt(OTHER));
    world.node.pass(2);
    world.is_replaced_by(TcpSynAt(OTHER));
}

/// Its client has reset the connection, or knows nothing of it any more, and so has the backend.
fn a_client_that_begins_anew_leaves_a_backend_that_is_gone<A: Family>(
    world: &mut World<A>,
    answer: Transport,
) where
    IpAddr: From<A>,
{
    world.begin();
    world.moves();
    let dropped = world.dropped();
    world.client(TcpRst);
    world.client(TcpSynAt(OTHER));
    // What answers another SYN is the backend's of the old connection.
    world.backend(Transport::TcpSynAckTo(1001));
    let reply = Packet::new(
        answer,
        world.at_backend.destination,
        world.at_backend.source,
    );
    let verdict = match world.way {
        Way::Here | Way::Dsr => world.node.egress(&reply.frame()),
        Way::Snat => world.node.ingress(&reply.frame()),
    };
    assert_eq!(verdict, Verdict::Drop, "{:?}", world.way);
    assert_eq!(world.dropped(), dropped + 1);
    world.is_replaced_by(TcpSynAt(OTHER));
}

both_families!(a_syn_in_a_connection_passes_a_second_hook_as_it_is);
fn a_syn_in_a_connection_passes_a_second_hook_as_it_is<A: Family>() {
    let mut node = node(Backends::Here);
    let request = Packet::new(TcpSyn, (A::POD, 40_000), (A::CLUSTER_IP, 80));
    let at_backend = request.to((A::LOCAL, 8080));
    node.ingress(&request.frame()).passed();
    node.egress(&at_backend.answer().frame()).passed();
    node.ingress(&request.with(TcpAck).frame()).passed();
    let sent = at_backend.with(TcpSynAt(OTHER)).frame();
    let passed = Verdict::Pass(sent.clone());
    assert_eq!(node.ingress(&request.with(TcpSynAt(OTHER)).frame()), passed);
    assert_eq!(node.ingress(&sent), passed, "as it was translated");
    // The pod's own connection to the backend gets a port of its own.
    let own = at_backend.with(TcpSynAt(OTHER + 1));
    assert_ne!(node.ingress(&own.frame()).passed(), own.frame());
}
