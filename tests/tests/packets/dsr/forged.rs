//! Packets and envelopes whose source may be forged: they came in where packets to it do not go out.

use std::net::IpAddr;

use shunt_datapath::{DatapathOptions, PodInterfaces};

use super::world::{OTHER_V4, OTHER_V6, counted, dsr, envelope, in_both, node};
use crate::{
    address::Address,
    both_families,
    frame::{Packet, Transport},
    node::{Node, Verdict},
    ways::{attach, go_back},
    world::{Backends, Family},
};

/// Returns whether the family's packets are judged by `rp_filter`.
fn is_judged<A: Address>() -> bool {
    size_of::<A>() == 4
}

both_families!(a_packet_that_is_not_on_its_way_back_gets_into_no_envelope(OTHER_V4; OTHER_V6) in in_both);
fn a_packet_that_is_not_on_its_way_back_gets_into_no_envelope<A: Family>(other: A)
where
    IpAddr: From<A>,
{
    for (port, transport) in (40_000..).zip([Transport::TcpSyn, Transport::Udp]) {
        // Each has an empty memory of sources.
        for is_on_way in [true, false] {
            let mut node = node(Backends::Elsewhere);
            attach(&mut node, "eth0");
            if is_on_way {
                go_back(A::OUTSIDER, true);
            }
            let packet = Packet::new(transport, (A::OUTSIDER, port), (A::EXTERNAL_IP, 80));
            for _ in 0..3 {
                let verdict = node.ingress(&packet.frame());
                if is_on_way || !is_judged::<A>() {
                    let wrapped = envelope(A::NODE, other, &packet.forwarded().packet());
                    assert_eq!(verdict, Verdict::Redirect(wrapped), "{transport:?}");
                } else {
                    // Half translated: the stack judges it.
                    let at_backend = packet.to((A::REMOTE, 8080));
                    assert_eq!(verdict, Verdict::Pass(at_backend.frame()), "{transport:?}");
                }
            }
            if is_on_way {
                go_back(A::OUTSIDER, false);
            }
        }
    }
}

both_families!(an_envelope_that_came_in_where_none_from_its_source_can_is_not_opened(OTHER_V4; OTHER_V6) in in_both);
fn an_envelope_that_came_in_where_none_from_its_source_can_is_not_opened<A: Family>(other: A)
where
    IpAddr: From<A>,
{
    let packet = Packet::new(Transport::Udp, (A::OUTSIDER, 40_000), (A::EXTERNAL_IP, 80));
    let frame = |from| envelope(from, A::NODE, &packet.packet());
    let opened = || Verdict::Pass(packet.to((A::LOCAL, 8080)).frame());
    let untouched = |from| Verdict::Pass(frame(from));
    for is_on_way in [true, false] {
        let mut node = node(Backends::Here);
        attach(&mut node, "lo");
        if is_on_way {
            go_back(other, true);
        }
        let expected = if is_on_way || !is_judged::<A>() {
            opened()
        } else {
            untouched(other)
        };
        assert_eq!(node.ingress(&frame(other)), expected);
        assert_eq!(node.ingress(&frame(A::NODE)), untouched(A::NODE), "its own");
        if is_on_way {
            go_back(other, false);
        }
        let expected = if is_on_way || !is_judged::<A>() { 1 } else { 2 };
        assert_eq!(counted(&node, "pass_forged_envelope"), expected);
    }
    // A pod's device leads to no node, whatever the routes are.
    let pods = |options: &mut DatapathOptions| {
        options.pods.interfaces = PodInterfaces::Prefix("lo".to_owned());
    };
    let mut node = Node::with(pods, [dsr(Backends::Here).as_str()]);
    assert_eq!(
        node.ingress(&frame(other)),
        untouched(other),
        "by a pod's device"
    );
}
