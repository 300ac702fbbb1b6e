//! The next hop of a packet that is forwarded where the driver has it: its interface and its link
//! addresses, from the kernel's routing and neighbour tables.
//!
//! It is remembered for a moment, for all packets from one address to another. What has none, does
//! not fit, has come too far, is for another station, or leaves where the driver cannot send from here,
//! the stack's side takes. So does it take a packet of each way in some seconds, which has the kernel probe the
//! neighbour.

use aya_ebpf::bindings::BPF_FIB_LKUP_RET_SUCCESS;
use bytemuck::Zeroable as _;
use shunt_common::{Address as _, Tuple};

use crate::{
    ctx::{
        access::{Access, AccessError},
        verdict::Verdict,
    },
    forward::{
        envelope,
        fib::{self, Routed, longest_packet},
        origin, stack,
    },
    maps::{
        clock, dsr, paths,
        scratch::Way,
        tables::{UPLINKS, WAYS},
    },
    packet::{
        family::hop_limit,
        link::{EthernetAddresses, Station},
        offset::Extent,
    },
};

/// Index of a CPU's remembered way. Not the way itself: older verifiers do not see that it is there
/// whenever it was found, after all that is done to the packet in between.
#[derive(Clone, Copy)]
pub(crate) struct WayIndex(u32);

/// Mark that distinguishes the ways of envelopes from others, in the word for the interface that packets came in by.
const ENVELOPE: u32 = 1 << 31;

/// Facts on which a packet's way may depend besides its destination.
pub(crate) struct Origin<'a, F: Routed> {
    /// The tuple with which it came in.
    pub(crate) came: &'a Tuple<F>,
    /// True if both sides have been heard of, so that the packet's origin is not forged.
    pub(crate) is_proven: bool,
}

/// Finds the way of a packet that came in with the tuple of `origin`, once it has the addresses of
/// `translated`; `None` if it is not to be sent from here.
#[inline(always)]
pub(crate) fn find<F: Routed>(
    context: &impl Access,
    extent: Extent,
    origin: &Origin<'_, F>,
    translated: &Tuple<F>,
) -> Option<WayIndex> {
    let (index, way) = find_way(context, extent, translated)?;
    // Where the stack can send it all the same, it judges where the packet comes from.
    let is_judged = F::HAS_REVERSE_PATH_FILTER
        && way.is_translated_behind != 0
        && !origin.is_proven
        && !origin::may_come(context, extent.network, origin.came)
        && !origin::is_let_through::<F>(&origin.came.source, context.interface());
    (!is_judged).then_some(index)
}

/// Way of a packet in an envelope.
pub(crate) enum EnvelopeWay<F: Routed> {
    /// Nowhere: the backend's node is not known, or is this one, or the way there is too narrow for envelopes.
    Nowhere,
    /// Elsewhere, but not from here.
    Elsewhere,
    /// To the node with this address, this way.
    To(F::Address, WayIndex),
}

/// Finds the way of a packet that came in with the tuple `came`, in an envelope from the source of `between` to the
/// node of the backend whose address is the destination. `located`: the result of [`dsr::located`].
#[inline(always)]
pub(crate) fn find_for_envelope<F: Routed>(
    context: &impl Access,
    extent: Extent,
    came: &Tuple<F>,
    between: &Tuple<F>,
    located: u64,
) -> EnvelopeWay<F> {
    let from = context.interface() | ENVELOPE;
    let Some((index, way)) = place(between) else {
        return EnvelopeWay::Elsewhere;
    };
    let now = clock::kernel_ticks();
    if !is_known(way, from, between, now) || way.located != located {
        look_up_envelope(way, context, between, now);
    }
    if way.node.is_unspecified() {
        return EnvelopeWay::Nowhere;
    }
    // Where the stack can send the packet without an envelope all the same, it judges where that comes from.
    let is_judged = F::HAS_REVERSE_PATH_FILTER && way.is_translated_behind != 0;
    let goes = goes(way, context, extent, F::HEADER_LENGTH as u32) == Some(true)
        && (!is_judged || origin::may_come(context, extent.network, came));
    if goes {
        EnvelopeWay::To(way.node, index)
    } else {
        EnvelopeWay::Elsewhere
    }
}

/// The way of a packet once it has the addresses of `translated`.
#[inline(always)]
fn find_way<F: Routed>(
    context: &impl Access,
    extent: Extent,
    translated: &Tuple<F>,
) -> Option<(WayIndex, &'static Way<F>)> {
    let (index, way) = place(translated)?;
    let now = clock::kernel_ticks();
    if !is_known(way, context.interface(), translated, now) {
        look_up(way, context, translated, now);
    }
    goes(way, context, extent, 0)?.then_some((index, way))
}

/// The place of the way between these addresses.
#[inline(always)]
fn place<F: Routed>(between: &Tuple<F>) -> Option<(WayIndex, &'static mut Way<F>)> {
    let [from, to] = [&between.source, &between.destination].map(|address| {
        let word = address.words().last().copied();
        u32::from_be(word.unwrap_or_default())
    });
    let index = WayIndex((to ^ from.rotate_left(WAYS.trailing_zeros() / 2)) % WAYS);
    Some((index, index.way::<F>()?))
}

/// Returns whether that is what is remembered there, of packets that came in like this.
#[inline(always)]
fn is_known<F: Routed>(way: &Way<F>, from: u32, between: &Tuple<F>, now: u64) -> bool {
    way.until > now
        && way.source == between.source
        && way.destination == between.destination
        && way.from == from
}

/// Returns whether the packet, which will be `more` bytes longer, can be sent this way from here.
#[inline(always)]
fn goes<F: Routed>(way: &Way<F>, context: &impl Access, extent: Extent, more: u32) -> Option<bool> {
    let goes = way.interface != 0
        && context.at::<EthernetAddresses>(0).ok()?.is_for(&way.own)
        && u32::from(longest_packet(context, extent)) + more <= way.mtu.max(F::LEAST_MTU.into())
        && hop_limit::<F>(context, extent.network).ok()? > 1;
    Some(goes)
}

/// Looks up the node of the backend that is the destination of `between`, and the way there.
#[inline(never)]
fn look_up_envelope<F: Routed>(
    way: &mut Way<F>,
    context: &impl Access,
    between: &Tuple<F>,
    now: u64,
) {
    // Before the node: if that changes meanwhile, the next packet looks again.
    way.located = dsr::located();
    let node = dsr::other_node::<F>(&between.destination);
    if let Some(node) = node {
        let outer = Tuple {
            destination: node,
            ..*between
        };
        look_up(way, context, &outer, now);
        let mtu = paths::mtu_to::<F>(&node);
        if mtu != 0 && mtu < way.mtu {
            way.mtu = mtu;
        }
        let is_narrow = way.interface != 0 && way.mtu < u32::from(envelope::least_mtu::<F>());
        way.node = if is_narrow {
            F::Address::zeroed()
        } else {
            node
        };
    } else {
        way.interface = 0;
        way.until = now + clock::way_lifetime();
        way.source = between.source;
        way.node = F::Address::zeroed();
    }
    way.destination = between.destination;
    way.from = context.interface() | ENVELOPE;
}

/// Looks up the way from the source to the destination of `translated`.
#[inline(never)]
fn look_up<F: Routed>(way: &mut Way<F>, context: &impl Access, translated: &Tuple<F>, now: u64) {
    way.interface = 0;
    // Who has no neighbour entry yet gets one from the stack, with this packet.
    way.until = 0;
    // A packet that fits any interface, so that the result is the way's MTU.
    let Ok((BPF_FIB_LKUP_RET_SUCCESS, found)) = fib::look_up_for_all(context, translated, 1) else {
        return;
    };
    way.until = now + clock::way_lifetime();
    way.source = translated.source;
    way.destination = translated.destination;
    way.from = context.interface();
    // SAFETY: an entry is replaced whole, and of the second nothing is read.
    let uplinks = unsafe { (UPLINKS.get(way.from), UPLINKS.get(found.ifindex)) };
    let (Some(own), Some(_)) = uplinks else {
        return;
    };
    // The helper gives a stale neighbour's link address and does not have it probed (`bpf_ipv4_fib_lookup` of
    // net/core/filter.c). TC's way to a next hop does.
    if clock::is_confirmation_due(&mut way.confirmation_due, now) {
        way.until = 0;
        return;
    }
    way.own = Station::at(own.address);
    way.interface = found.ifindex;
    way.is_translated_behind = stack::is_translated_behind(found.ifindex).into();
    // SAFETY: the helper has put the MTU where the length was.
    way.mtu = unsafe { found.__bindgen_anon_1.mtu_result }.into();
    way.link.destination = bytemuck::cast(found.dmac);
    way.link.source = bytemuck::cast(found.smac);
}

impl WayIndex {
    /// As a BPF subprogram is given it.
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
    fn way<F: Routed>(self) -> Option<&'static mut Way<F>> {
        let way = F::ways().get_ptr_mut(self.0)?;
        // SAFETY: this CPU's own, and no other packet is in its programs before this one is
        // through.
        Some(unsafe { &mut *way })
    }

    /// Has the driver send the packet, which is one hop older already, this way.
    #[inline(always)]
    pub(crate) fn take<F: Routed>(self, context: &impl Access) -> Result<Verdict, AccessError> {
        let way = self.way::<F>().ok_or(AccessError::Refused)?;
        *context.at_mut::<EthernetAddresses>(0)? = way.link;
        // The packet came by the interface that the way is known for: the context would have to be asked by
        // three loads, each of which needs the one before.
        if way.from & !ENVELOPE == way.interface {
            context.send_back()
        } else {
            context.send_out(way.interface)
        }
    }
}
