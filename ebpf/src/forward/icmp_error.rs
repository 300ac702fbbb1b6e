//! Reporting to a packet's sender why it goes no further.

use aya_ebpf::helpers::bpf_ktime_get_ns;
use shunt_common::{Counter, FlowKind};

use crate::{
    ctx::{access::Access, verdict::Verdict},
    forward::hairpin::send_back,
    maps::{
        conntrack::seeds,
        constants::{CLIENT_SHARE, REJECT_BURST, REJECT_INTERVAL_NS},
        flows::tell_packet,
        services::{count_refused, drop_refused},
        tables::{REJECTED, REJECTIONS},
    },
    packet::{
        family::Family,
        link::{EthernetAddresses, Link},
        parsed::{Form, Packet},
    },
    rewrite::{icmp_error::IcmpError, network::Rewrite},
};

/// Sends the error about the packet back where that came from, from the address that it was sent
/// to. Counted as `reason`, also where no error may be sent; or as dropped where it cannot be.
#[inline(always)]
pub(crate) fn send_error<F: Rewrite>(
    error: IcmpError,
    context: &impl Access,
    packet: &Packet<F>,
    reason: Counter,
) -> Verdict {
    if !may_be_told_about(context, packet) {
        return drop_refused(context, packet, reason);
    }
    // What path-MTU discovery needs is always sent.
    if !matches!(error, IcmpError::TooLong(_)) && !allows_rejection::<F>(&packet.tuple.source) {
        return drop_refused(context, packet, Counter::DropRejectRate);
    }
    tell_packet(context, FlowKind::REFUSED, packet.service.get(), reason);
    let sent = error
        .replace(context, packet)
        .and_then(|()| send_back(context, packet.link));
    let Ok(verdict) = sent else {
        return drop_refused(context, packet, Counter::DropRewrite);
    };
    count_refused(packet, reason);
    verdict
}

/// Returns whether the packet's sender may be sent an ICMP error about it: not about an error, not about a
/// part of a datagram without its begin, not where the sender or whom it sent to are no single host,
/// by their addresses or by those of the link (RFC 1122 section 3.2.2, RFC 4443 section 2.4(e)),
/// and not about a header that came broken (RFC 1122 section 3.2.1.2).
#[inline(never)]
pub(crate) fn may_be_told_about<F: Family>(context: &impl Access, packet: &Packet<F>) -> bool {
    !matches!(packet.form, Form::Error | Form::LaterFragment)
        && F::is_unicast(&packet.tuple.source)
        && F::is_unicast(&packet.tuple.destination)
        && !context.is_for_group()
        && !is_from_group(context, packet.link)
        && packet.is_intact
}

/// Returns whether the link's header names several stations as the sender.
#[inline(always)]
fn is_from_group(context: &impl Access, link: Link) -> bool {
    // The first bit on the wire, IEEE 802 section 8.2.
    link == Link::Ethernet
        && !context
            .at::<EthernetAddresses>(0)
            .is_ok_and(|ethernet| ethernet.source[0].to_ne_bytes()[0] & 1 == 0)
}

/// Returns whether another rejection may be sent now: an error about each packet would let anyone that can
/// forge sources aim ours at others.
///
/// The generic cell rate algorithm (ITU-T I.371): each one is due an interval after the last, and
/// may come early by one interval less than the burst has. Two CPUs at one instant may both be
/// allowed what one is: that is harmless, and a lock is not.
///
/// With a share a client has such a limit of its own, of that part of the rate and of the burst.
#[inline(always)]
pub(crate) fn allows_rejection<F: Rewrite>(client: &F::Address) -> bool {
    let interval = REJECT_INTERVAL_NS.load();
    if interval == 0 {
        return true;
    }
    let limit = interval.wrapping_mul(REJECT_BURST.load());
    if let Some(interval) = (interval * 100).checked_div(CLIENT_SHARE.load().into()) {
        let client = F::client(F::words(&F::pack(*client, *client))[0]);
        let place = 1 + seeds().hash_client(client) % REJECTED;
        if !is_due(place, interval, limit) {
            return false;
        }
    }
    is_due(0, interval, limit)
}

/// Returns true if the rejection with this place in the table may be sent now, and counts it.
#[inline(always)]
fn is_due(place: u32, interval: u64, limit: u64) -> bool {
    let Some(due) = REJECTIONS.get_ptr_mut(place) else {
        return false;
    };
    // SAFETY: the helper has no preconditions.
    let now = unsafe { bpf_ktime_get_ns() };
    // SAFETY: the lookup gave a word of the table; volatile, as other CPUs write it too.
    let next = unsafe { due.read_volatile() }.max(now) + interval;
    if next - now > limit.max(interval) {
        return false;
    }
    // SAFETY: as above.
    unsafe { due.write_volatile(next) };
    true
}
