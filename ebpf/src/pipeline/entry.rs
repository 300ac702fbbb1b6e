//! Entry of every TC program.

use shunt_common::{Counter, Hook, V4, V6, registry::Packets};

use crate::{
    ctx::{access::Access as _, tc::Tc, verdict::Verdict},
    maps::{counters::count, handover::is_going_on, stations::leaves_others_alone},
    packet::{family::Family as _, link::Link},
    pipeline::{egress, ingress, program::Program},
};

/// Handles a packet at this hook, by its address family.
#[inline(always)]
pub(crate) fn handle(context: &Tc, link: Link, hook: Hook) -> Verdict {
    if context.is_of_vlan() {
        return Verdict::PASS;
    }
    if hook == Hook::Ingress
        && link == Link::Ethernet
        && context.is_for_other_station()
        && leaves_others_alone(context.interface())
    {
        count(Counter::PassOtherStation);
        return Verdict::PASS;
    }
    match context.ethertype() {
        V4::ETHERTYPE => handle_family::<V4>(context, link, hook),
        V6::ETHERTYPE => handle_ipv6(context, link, hook),
        _ => Verdict::PASS,
    }
}

/// Hands an IPv6 packet over to the program for it. The verifier's work on a program grows faster than the
/// program: two of one family take it half as long as one of both, and it can look at them at once.
#[cfg(target_arch = "bpf")]
#[inline(always)]
fn handle_ipv6(context: &Tc, link: Link, hook: Hook) -> Verdict {
    use crate::maps::{constants::Constants as _, programs::hand_over};

    if V6::is_translated() {
        hand_over(context.raw(), link == Link::Ethernet, hook);
        count(Counter::PassNoProgram);
    }
    Verdict::PASS
}

#[cfg(not(target_arch = "bpf"))]
fn handle_ipv6(context: &Tc, link: Link, hook: Hook) -> Verdict {
    handle_family::<V6>(context, link, hook)
}

/// Handles a packet of this family.
#[inline(always)]
pub(crate) fn handle_family<F: Program<Tc>>(context: &Tc, link: Link, hook: Hook) -> Verdict {
    // One constant decides both, so that packets load no other one.
    let packets = F::packets();
    if packets == Packets::Pass as u32 {
        return Verdict::PASS;
    }
    let is_fast = packets == Packets::Translated as u32 || !is_going_on();
    if is_fast && let Some(verdict) = F::fast_path(context, link, hook) {
        return verdict;
    }
    match hook {
        Hook::Ingress => ingress::handle::<F, Tc>(context, link),
        Hook::Egress => egress::handle::<F, Tc>(context, link),
    }
}
