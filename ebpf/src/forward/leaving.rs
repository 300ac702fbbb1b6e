//! The way of forwarded packets that leave with another source than the stack has routed them by.
//!
//! A reply leaves with its frontend's address; the stack knows its backend's. Where the host's routes depend on more than
//! the destination (`ip rule from`, `fwmark`), such a packet may be at the wrong interface. Its way is then that of a packet
//! from the address that it leaves with, without a mark, from where it came into the host: as it is with `--redirect`.
//!
//! A CPU remembers the way for a moment, so that of packets at the right interface only a few are looked up.

use aya_ebpf::bindings::{BPF_FIB_LKUP_RET_NO_NEIGH, BPF_FIB_LKUP_RET_SUCCESS};
use shunt_common::{Address as _, Counter, FlowKind, Tuple};

use crate::{
    ctx::{
        access::{Access, AccessError},
        verdict::Verdict,
    },
    forward::{
        fib::{self, Routed, longest_packet},
        icmp_error::may_be_told_about,
        transit::Route,
    },
    maps::{
        clock,
        flows::tell_packet,
        scratch::Origin,
        services::{count_refused, drop_refused},
        tables::ORIGINS,
    },
    packet::{link::Link, parsed::Packet},
    rewrite::icmp_error::IcmpError,
};

/// Mark that distinguishes the entries of packets that leave from those of packets that come in.
const LEAVING: u32 = 1 << 31;

/// Index of a CPU's remembered way. Not the way itself: older verifiers do not see that it is there whenever
/// it was found, after all that is done to the packet in between.
#[derive(Clone, Copy)]
pub(crate) struct LeavingIndex(u32);

/// Finds the way of a packet of this protocol that leaves with the tuple `leaves`; `None` if it leads out of the interface
/// where the packet is, or if there is none. `is_bound` returns whether the packet keeps the stack's way, whatever its own is.
#[inline(always)]
pub(crate) fn find<F: Routed>(
    context: &impl Access,
    leaves: &Tuple<F>,
    protocol: u8,
    is_bound: impl FnOnce() -> bool,
) -> Option<LeavingIndex> {
    let [from, to] = [&leaves.source, &leaves.destination].map(|address| {
        let word = address.words().last().copied();
        u32::from_be(word.unwrap_or_default())
    });
    let port = u32::from(u16::from_be(leaves.source_port));
    let index = LeavingIndex((to ^ from.rotate_left(5) ^ port) % ORIGINS);
    let origin = index.origin::<F>()?;
    let now = clock::kernel_ticks();
    let interface = context.interface() | LEAVING;
    let came_by = context.came_by();
    let service = u32::from(protocol) << 16 | port;
    let is_known = origin.until > now
        && origin.address == leaves.destination
        && origin.interface == interface
        && origin.other == leaves.source
        && origin.leaving.service == service
        && origin.leaving.came_by == came_by;
    if !is_known {
        origin.until = now + clock::way_lifetime();
        origin.address = leaves.destination;
        origin.interface = interface;
        origin.other = leaves.source;
        origin.leaving.service = service;
        origin.leaving.came_by = came_by;
        origin.is_on_way = 1;
        if !is_bound() {
            look_up(origin, context, leaves, protocol);
        }
    }
    (origin.is_on_way == 0).then_some(index)
}

/// Looks up the way.
#[inline(always)]
fn look_up<F: Routed>(
    origin: &mut Origin<F>,
    context: &impl Access,
    leaves: &Tuple<F>,
    protocol: u8,
) {
    let Ok((result, found)) = fib::look_up_from_arrival(context, leaves, protocol) else {
        return;
    };
    let mtu = match result {
        // SAFETY: the helper has put the MTU where the length was.
        BPF_FIB_LKUP_RET_SUCCESS => unsafe { found.__bindgen_anon_1.mtu_result }.into(),
        // The kernel has not written it.
        BPF_FIB_LKUP_RET_NO_NEIGH => {
            origin.until = 0;
            u32::MAX
        }
        _ => return,
    };
    if found.ifindex == context.interface() {
        return;
    }
    origin.is_on_way = 0;
    origin.leaving.interface = found.ifindex;
    origin.leaving.mtu = mtu;
    origin.leaving.next_hop.nh_family = found.family.into();
    // SAFETY: four words of the union, whichever of them the family uses.
    origin.leaving.next_hop.__bindgen_anon_1.ipv6_nh = unsafe { found.__bindgen_anon_4.ipv6_dst };
}

impl LeavingIndex {
    /// As a BPF subprogram returns it.
    #[inline(always)]
    pub(crate) const fn number(self) -> u32 {
        self.0
    }

    /// The place that has this number.
    #[inline(always)]
    pub(crate) const fn of_number(number: u32) -> Self {
        Self(number)
    }

    #[inline(always)]
    fn origin<F: Routed>(self) -> Option<&'static mut Origin<F>> {
        let origin = F::origins().get_ptr_mut(self.0)?;
        // SAFETY: this CPU's own, and no other packet is in its programs before this one is through.
        Some(unsafe { &mut *origin })
    }

    /// Returns the MTU of the way if the packet does not fit.
    #[inline(always)]
    pub(crate) fn narrow<F: Routed>(
        self,
        context: &impl Access,
        packet: &Packet<F>,
    ) -> Option<u16> {
        let mtu = self.origin::<F>()?.leaving.mtu.max(F::LEAST_MTU.into());
        let is_long = u32::from(longest_packet(context, packet.extent())) > mtu;
        is_long.then_some(mtu as u16)
    }

    /// Has the kernel send the packet this way. The stack has decremented its hop limit.
    #[inline(always)]
    pub(crate) fn take<F: Routed>(
        self,
        context: &impl Access,
        link: Link,
    ) -> Result<Verdict, AccessError> {
        let leaving = &self.origin::<F>().ok_or(AccessError::Refused)?.leaving;
        Route::to(leaving.interface, leaving.next_hop).send(context, link)
    }
}

/// Reports to the sender of a packet, which is at the wrong interface and as the stack has it, that it is longer than its
/// way takes.
#[inline(always)]
pub(crate) fn report_too_long<F: Routed>(
    context: &impl Access,
    packet: &Packet<F>,
    mtu: u16,
) -> Verdict {
    let reason = Counter::RejectTooLong;
    if !may_be_told_about(context, packet) {
        return drop_refused(context, packet, reason);
    }
    tell_packet(context, FlowKind::REFUSED, packet.service.get(), reason);
    let sent = IcmpError::TooLong(mtu)
        .replace(context, packet)
        .and_then(|()| {
            let (result, lookup) = fib::look_up_for_all(context, &packet.tuple.reversed(), 1)?;
            match result {
                BPF_FIB_LKUP_RET_SUCCESS | BPF_FIB_LKUP_RET_NO_NEIGH => {
                    Route::from(lookup).send(context, packet.link)
                }
                _ => Err(AccessError::Refused),
            }
        });
    let Ok(verdict) = sent else {
        return drop_refused(context, packet, Counter::DropRewrite);
    };
    count_refused(packet, reason);
    verdict
}
