//! Packets that a router does not take on, whatever they are for: checked before anything is done for them.
//!
//! Packets that go through the stack are judged there; these are those that we answer or forward.

use shunt_common::Counter;

use crate::{
    ctx::{access::Access, verdict::Verdict},
    forward::icmp_error::send_error,
    maps::services::drop_refused,
    packet::{
        family::{Options, hop_limit},
        parsed::Packet,
    },
    rewrite::{icmp_error::IcmpError, network::Rewrite},
};

/// `Err` of a packet whose header came broken (RFC 1812 section 5.2.2), or from where, or by a way that, the kernel
/// takes nothing on (`ip_route_input_slow` in net/ipv4/route.c, `ip_rcv_options` in net/ipv4/ip_input.c).
#[inline(always)]
pub(crate) fn check_source<F: Rewrite>(
    context: &impl Access,
    packet: &Packet<F>,
) -> Result<(), Verdict> {
    let reason = if !packet.is_intact {
        Counter::DropChecksum
    } else if !F::is_forwarded_from(&packet.tuple.source) {
        Counter::DropMartian
    } else if packet.options == Options::SourceRoute {
        Counter::DropSourceRoute
    } else {
        return Ok(());
    };
    Err(drop_refused(context, packet, reason))
}

/// `Err` of a packet that may make no more hops: its sender gets an error.
#[inline(always)]
pub(crate) fn check_hops<F: Rewrite>(
    context: &impl Access,
    packet: &Packet<F>,
) -> Result<(), Verdict> {
    match hop_limit::<F>(context, packet.network.get()) {
        Ok(2..) => Ok(()),
        _ => Err(send_error(
            IcmpError::Expired,
            context,
            packet,
            Counter::RejectExpired,
        )),
    }
}
