//! Entry of every program.

use shunt_common::{Counter, Hook, V4, V6, registry::Packets};

use crate::{
    ctx::{access::Access, verdict::Verdict},
    maps::{counters::count, handover::is_going_on, stations::leaves_others_alone},
    packet::{family::Family as _, link::Link},
    pipeline::{egress, ingress, program::Program},
};

/// Handles a packet at this hook, by its address family.
#[inline(always)]
pub(crate) fn handle<C: Access>(context: &C, link: Link, hook: Hook) -> Verdict
where
    V4: Program<C>,
    V6: Program<C>,
{
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
        V4::ETHERTYPE => handle_family::<V4, C>(context, link, hook),
        V6::ETHERTYPE => handle_family::<V6, C>(context, link, hook),
        _ => Verdict::PASS,
    }
}

#[inline(always)]
fn handle_family<F: Program<C>, C: Access>(context: &C, link: Link, hook: Hook) -> Verdict {
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
        Hook::Ingress => ingress::handle::<F, C>(context, link),
        Hook::Egress => egress::handle::<F, C>(context, link),
    }
}
