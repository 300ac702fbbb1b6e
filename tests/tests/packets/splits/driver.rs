//! Clients outside, at both hooks: backends elsewhere, by SNAT and in mode dsr.

use std::net::IpAddr;

use shunt_datapath::RejectLimit;

use super::world::partly_refused;
use crate::{
    both_families,
    dsr::world::{OTHER_V4, OTHER_V6, counted, dsr, envelope, in_both},
    frame::{Packet, Transport},
    node::{Node, Verdict},
    reports::unreachable,
    world::{Backends, Family, cluster, seen},
};

const OPENING: [Transport; 2] = [Transport::TcpSyn, Transport::Udp];
const PORTS: std::ops::Range<u16> = 20_000..20_200;

/// The cluster, whose service refuses as many connections as it serves.
fn half_refused(cluster: &str) -> String {
    partly_refused(cluster, 1)
}

fn node(event: &str) -> Node {
    Node::with(|options| options.rejects = RejectLimit { rate: 0 }, [event])
}

/// Returns the number of refused packets, of one from each of the ports; the others go to `check`.
fn refused<A: Family>(
    node: &mut Node,
    transport: Transport,
    mut check: impl FnMut(&Packet<A>, Verdict),
) -> usize {
    let refused = PORTS.filter(|port| {
        let packet = Packet::new(transport, (A::OUTSIDER, *port), (A::EXTERNAL_IP, 80));
        let answer = Verdict::Redirect(unreachable(&packet));
        match node.rejecting_ingress(&packet.frame()) {
            verdict if verdict == answer => true,
            verdict => {
                check(&packet, verdict);
                false
            }
        }
    });
    refused.count()
}

#[track_caller]
fn assert_half(refused: usize) {
    assert!((50..150).contains(&refused), "{refused} of {}", PORTS.len());
}

both_families!(transit_is_refused_its_share in in_both);
fn transit_is_refused_its_share<A: Family>() {
    let mut node = node(&half_refused(&cluster(Backends::Elsewhere)));
    for transport in OPENING {
        let half = refused::<A>(&mut node, transport, |_, verdict| {
            assert_eq!(seen::<A>(&verdict).0, A::NODE, "on to the backend");
        });
        assert_half(half);
    }
    assert!(!node.counters().contains_key("drop_corrupt"));
}

both_families!(the_first_node_refuses_the_share_and_sends_all_else_in_envelopes(OTHER_V4; OTHER_V6) in in_both);
fn the_first_node_refuses_the_share_and_sends_all_else_in_envelopes<A: Family>(other: A)
where
    IpAddr: From<A>,
{
    let mut node = node(&half_refused(&dsr(Backends::Elsewhere)));
    for transport in OPENING {
        let ask = |node: &mut Node| {
            let mut wrapped = Vec::new();
            let half = refused::<A>(node, transport, |packet, verdict| {
                let inside = packet.forwarded().packet();
                let sent = envelope(A::NODE, other, &inside);
                assert_eq!(verdict, Verdict::Redirect(sent), "{packet:?}");
                wrapped.push(packet.source.1);
            });
            assert_half(half);
            wrapped
        };
        let first = ask(&mut node);
        assert_eq!(ask(&mut node), first, "each packet of a flow alike");
    }
    assert_eq!(node.connections().len(), 0);
}

both_families!(the_backends_node_refuses_nothing_of_what_another_has_chosen_it_for(OTHER_V4; OTHER_V6) in in_both);
fn the_backends_node_refuses_nothing_of_what_another_has_chosen_it_for<A: Family>(other: A)
where
    IpAddr: From<A>,
{
    let mut node = node(&half_refused(&dsr(Backends::Here)));
    for transport in OPENING {
        for port in PORTS {
            let client = (A::OUTSIDER, port);
            let packet = Packet::new(transport, client, (A::EXTERNAL_IP, 80));
            let frame = envelope(other, A::NODE, &packet.packet());
            let passed = packet.to((A::LOCAL, 8080)).frame();
            assert_eq!(node.rejecting_ingress(&frame), Verdict::Pass(passed));
        }
    }
    assert_eq!(counted(&node, "reject_no_backend"), 0);
}
