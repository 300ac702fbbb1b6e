//! Connections of which another program has overwritten a half in the table.

use aya::maps::{Array, Map};
use shunt_common::{
    connections::{Meta, Role, place},
    registry::{self, FamilyMaps},
};
use shunt_datapath::ConntrackState::{Established, Replied};

use super::{
    frame::{Packet, Transport},
    needs_root,
    node::{Node, Verdict},
    world::{Backends, Family, V4, V6, in_network, node_with, open_transit},
};

use Transport::{TcpAck, TcpSyn, TcpSynAck, Udp};

const CONNTRACK_V4: registry::Map = FamilyMaps::V4.conntrack;
const CONNTRACK_V6: registry::Map = FamilyMaps::V6.conntrack;

/// Longer than both halves of a connection are believed to be there, in seconds: 64 ticks of 64 jiffies.
const SPAN: u32 = 20;

fn node(backends: Backends) -> Node {
    node_with(|options| options.sizes.conntrack = 1024, backends)
}

/// Writes zeros into the one slot that has a half of this role.
#[track_caller]
fn lose<const WORDS: usize>(node: &mut Node, map: registry::Map, role: Role)
where
    [u64; WORDS]: aya::Pod,
{
    let map = Map::from_map_data(node.table(map)).unwrap();
    let mut slots = Array::<_, [u64; WORDS]>::try_from(map).unwrap();
    let halves: Vec<u32> = (0..slots.len())
        .filter(|index| {
            let meta = Meta(slots.get(index, 0).unwrap()[place::META]);
            meta.is_live() && meta.role() == role
        })
        .collect();
    let [half] = halves[..] else {
        panic!("{} connections", halves.len());
    };
    slots.set(half, [0; WORDS], 0).unwrap();
}

/// A client of this node's and its backend.
struct Pair<A> {
    request: Packet<A>,
    at_backend: Packet<A>,
}

impl<A: Family> Pair<A> {
    fn new(transport: Transport) -> Self {
        let request = Packet::new(transport, (A::POD, 40_000), (A::CLUSTER_IP, 80));
        let at_backend = request.to((A::LOCAL, 8080));
        Self {
            request,
            at_backend,
        }
    }

    #[track_caller]
    fn client(&self, node: &mut Node, transport: Transport) {
        let sent = node.ingress(&self.request.with(transport).frame());
        let expected = self.at_backend.with(transport).frame();
        assert_eq!(sent, Verdict::Pass(expected), "{transport:?}");
    }

    fn reply(&self, transport: Transport) -> Packet<A> {
        Packet::new(
            transport,
            self.at_backend.destination,
            self.at_backend.source,
        )
    }

    #[track_caller]
    fn backend(&self, node: &mut Node, transport: Transport) {
        let reply = self.reply(transport);
        let expected = reply.from(self.request.destination).frame();
        let sent = node.egress(&reply.frame());
        assert_eq!(sent, Verdict::Pass(expected), "{transport:?}");
    }

    fn established(node: &mut Node) -> Self {
        let pair = Self::new(TcpSyn);
        pair.client(node, TcpSyn);
        pair.backend(node, TcpSynAck);
        pair.client(node, TcpAck);
        pair
    }
}

#[track_caller]
fn is_whole(node: &Node, state: shunt_datapath::ConntrackState) {
    let listed: Vec<_> = node.connections().iter().map(|one| one.state).collect();
    assert_eq!(listed, [state]);
    assert_eq!(node.counters()["connection"], 1, "it is still the first");
}

#[test]
fn the_next_packet_of_either_side_brings_a_lost_half_back() {
    needs_root!();
    either_half::<V4, 8>(CONNTRACK_V4);
    either_half::<V6, 16>(CONNTRACK_V6);
}

fn either_half<A: Family, const WORDS: usize>(map: registry::Map)
where
    [u64; WORDS]: aya::Pod,
{
    let mut node = node(Backends::Here);
    let pair = Pair::<A>::established(&mut node);
    for _ in 0..3 {
        node.pass(SPAN);
        lose::<WORDS>(&mut node, map, Role::Reply);
        let early = pair.reply(TcpAck).frame();
        assert_eq!(
            node.egress(&early),
            Verdict::Pass(early.clone()),
            "nobody's"
        );
        pair.client(&mut node, TcpAck);
        pair.backend(&mut node, TcpAck);
        is_whole(&node, Established);

        node.pass(SPAN);
        lose::<WORDS>(&mut node, map, Role::Forward);
        pair.backend(&mut node, TcpAck);
        pair.client(&mut node, TcpAck);
        is_whole(&node, Established);
    }
}

#[test]
fn a_flow_s_next_datagram_brings_the_reply_half_back() {
    needs_root!();
    flow::<V4, 8>(CONNTRACK_V4);
    flow::<V6, 16>(CONNTRACK_V6);
}

fn flow<A: Family, const WORDS: usize>(map: registry::Map)
where
    [u64; WORDS]: aya::Pod,
{
    let mut node = node(Backends::Here);
    let pair = Pair::<A>::new(Udp);
    pair.client(&mut node, Udp);
    pair.backend(&mut node, Udp);
    // Longer than the shortest of all timeouts too, and not as long as a flow's.
    node.pass(SPAN);
    lose::<WORDS>(&mut node, map, Role::Reply);
    pair.client(&mut node, Udp);
    pair.backend(&mut node, Udp);
    is_whole(&node, Replied);
}

#[test]
fn a_connection_under_this_node_s_address_gets_a_lost_half_back() {
    needs_root!();
    in_network(|| {
        transit::<V4, 8>(CONNTRACK_V4);
        transit::<V6, 16>(CONNTRACK_V6);
    });
}

fn transit<A: Family, const WORDS: usize>(map: registry::Map)
where
    [u64; WORDS]: aya::Pod,
{
    let mut node = node(Backends::Elsewhere);
    let request = Packet::new(TcpSyn, (A::OUTSIDER, 40_000), (A::EXTERNAL_IP, 80));
    let at_backend = open_transit(&mut node, &request);
    let client = |node: &mut Node| {
        let sent = node.ingress(&request.with(TcpAck).frame());
        assert_eq!(sent, Verdict::Redirect(at_backend.with(TcpAck).frame()));
    };
    let backend = |node: &mut Node, transport| {
        let reply = Packet::new(transport, at_backend.destination, at_backend.source);
        let restored = reply
            .from(request.destination)
            .to(request.source)
            .forwarded();
        let sent = node.ingress(&reply.frame());
        assert_eq!(sent, Verdict::Redirect(restored.frame()));
    };
    backend(&mut node, TcpSynAck);
    client(&mut node);
    node.pass(SPAN);
    lose::<WORDS>(&mut node, map, Role::Reply);
    client(&mut node);
    backend(&mut node, TcpAck);
    is_whole(&node, Established);
    node.pass(SPAN);
    lose::<WORDS>(&mut node, map, Role::Forward);
    backend(&mut node, TcpAck);
    client(&mut node);
    is_whole(&node, Established);
}
