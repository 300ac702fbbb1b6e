//! How a translated packet leaves.
//!
//! | connection | way |
//! |---|---|
//! | source kept | through the stack, which sees one consistent connection |
//! | to a pod of this node, with `--redirect` | straight to the pod's device |
//! | hairpin | back out of the interface that it came in by: the stack would judge both directions by routes that do not exist (`rp_filter`) |
//! | SNAT | straight to the next hop: the stack would see halves of two connections |

use aya_ebpf::programs::TcContext;
use shunt_common::{Counter, Hook, Tuple};

use crate::{
    counters::{count, drop},
    delivery::{self, Place},
    family::Family,
    fragments,
    packet::Packet,
    rewrite::rewrite,
    route::{self, Refusal, Route},
    turn::turn_back,
    verdict::Verdict,
};

/// Where a packet goes when its program ends.
enum Way {
    Stack,
    Back,
    Pod(Place),
    Transit(Route),
}

/// Gives the packet the tuple `translated` and sends it on, counted as `as_what`.
#[inline(always)]
pub fn send<F: Family>(
    context: &TcContext,
    packet: &Packet<F>,
    translated: &Tuple<F>,
    as_what: Counter,
) -> Verdict {
    let hairpin = F::hairpin_ip();
    let keeps_source = translated.source == packet.tuple.source;
    let way = if !keeps_source
        && (translated.source == hairpin || packet.tuple.destination == hairpin)
    {
        Way::Back
    } else if let Some(place) = delivery::find(
        context,
        packet.link,
        packet.extent(),
        translated,
        packet.opens,
    ) {
        Way::Pod(place)
    } else if keeps_source {
        Way::Stack
    } else {
        match route::find(context, packet, translated) {
            Ok(route) => Way::Transit(route),
            // A reply is as well sent by the stack, and translated behind it.
            Err(_) if translated.destination == packet.tuple.destination => return Verdict::PASS,
            Err(Refusal { reason, tell }) => {
                if let Some(error) = tell {
                    return error.answer(context, packet, reason);
                }
                return drop(context, reason);
            }
        }
    };
    fragments::remember(packet, Hook::Ingress, translated);
    if rewrite(context, packet, translated).is_err() {
        return drop(context, Counter::DropRewrite);
    }
    let sent = match way {
        Way::Stack => {
            count(as_what);
            return Verdict::PASS;
        }
        Way::Back => turn_back(context, packet.link),
        Way::Pod(place) => place.take::<F>(context, packet.network.get()),
        Way::Transit(route) => route.take(context, packet),
    };
    if sent.is_err() {
        return drop(context, Counter::DropRewrite);
    }
    count(as_what);
    Verdict::REDIRECT
}
