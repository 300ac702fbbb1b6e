//! Delivery in one hop (`--redirect`): packets to a pod of this node go straight to the pod's
//! device, past the host's stack, and so past its netfilter rules.
//!
//! What the stack would have done is done here: the route decides, a hop is taken off the limit,
//! the link's header is the pod's. What does not fit the device, has come too far, or is for a pod
//! whose neighbour is not known yet goes through the stack, which knows what to do with it.
//!
//! The way to a pod is remembered for a moment only: a pod that comes back with its address on
//! another device is found there, whoever is told of it or not.

use aya_ebpf::{
    bindings::{BPF_FIB_LKUP_RET_SUCCESS, TC_ACT_REDIRECT},
    cty::c_long,
    helpers::{bpf_ktime_get_coarse_ns, bpf_redirect_peer},
    programs::TcContext,
};
use shunt_common::{Address as _, Tuple};

use crate::{
    config,
    family::Family,
    frame::{EthernetAddresses, Extent, Unreadable, at_mut},
    maps::{HOPS, PEERS},
    packet::Link,
    route::{self, longest_packet},
};

/// For how long the way to a pod is taken to be the same.
const LIFETIME_NS: u64 = 100_000_000;

/// The way to a pod, as a CPU remembers it.
#[repr(C)]
pub struct Hop<F: shunt_common::Family> {
    /// Until when, on the kernel's monotonic clock.
    until: u64,
    /// Whose.
    address: F::Address,
    /// The host's end of its device; 0: through the stack.
    interface: u32,
    /// The longest packet that it takes, from the network header on.
    mtu: u32,
    link: EthernetAddresses,
}

/// Where a CPU remembers a hop. Not the hop itself: older verifiers do not see that it is there
/// whenever it was found, after all that is done to the packet in between.
#[derive(Clone, Copy)]
pub struct Place(u32);

/// Where the hop is that takes the packet to the destination of `to`, if that is a pod of this node behind
/// a device of its own and the stack is not needed. `afresh`: whatever is remembered.
#[inline(always)]
pub fn find<F: Family>(
    context: &TcContext,
    link: Link,
    extent: Extent,
    to: &Tuple<F>,
    afresh: bool,
) -> Option<Place> {
    if !config::redirects() || link != Link::Ethernet || !F::is_of_pod(&to.destination) {
        return None;
    }
    let place = Place(u32::from_be(*to.destination.words().last()?) % HOPS);
    let hop = place.hop::<F>()?;
    // SAFETY: the helper has no preconditions.
    let now = unsafe { bpf_ktime_get_coarse_ns() };
    if afresh || hop.until <= now || hop.address != to.destination {
        hop.look_up(context, extent.network, to, now);
    }
    let goes = hop.interface != 0
        && u32::from(longest_packet(context, extent)) <= hop.mtu
        && F::hop_limit(context, extent.network).ok()? > 1;
    goes.then_some(place)
}

impl<F: Family> Hop<F> {
    /// Asks the kernel for the way to the destination of `to`.
    #[inline(always)]
    fn look_up(&mut self, context: &TcContext, network: usize, to: &Tuple<F>, now: u64) {
        self.interface = 0;
        self.address = to.destination;
        // Who has no neighbour entry yet gets one from the stack, with this packet.
        self.until = 0;
        // Of a packet that fits any device, so that the answer is the device's MTU.
        let Ok((BPF_FIB_LKUP_RET_SUCCESS, found)) = route::ask(context, network, to, 1) else {
            return;
        };
        self.until = now + LIFETIME_NS;
        // SAFETY: the value is not read.
        if unsafe { PEERS.get(found.ifindex) }.is_none() {
            return;
        }
        self.interface = found.ifindex;
        // SAFETY: the helper has put the MTU where the length was.
        self.mtu = unsafe { found.__bindgen_anon_1.mtu_result }.into();
        self.link.destination = found.dmac;
        self.link.source = found.smac;
    }
}

impl Place {
    #[inline(always)]
    fn hop<F: Family>(self) -> Option<&'static mut Hop<F>> {
        let hop = F::hops().get_ptr_mut(self.0)?;
        // SAFETY: this CPU's own, and no other packet is in its programs before this one is
        // through.
        Some(unsafe { &mut *hop })
    }

    /// Has the kernel hand the packet with its network header at `network` to the pod; the program
    /// has to end with [`crate::verdict::Verdict::REDIRECT`].
    #[inline(always)]
    pub fn take<F: Family>(self, context: &TcContext, network: usize) -> Result<(), Unreadable> {
        F::decrement_hop_limit(context, network)?;
        let hop = self.hop::<F>().ok_or(Unreadable::Foreign)?;
        *at_mut::<EthernetAddresses>(context, 0)? = hop.link;
        // SAFETY: the helper takes any interface index.
        let redirected = unsafe { bpf_redirect_peer(hop.interface, 0) };
        if redirected == c_long::from(TC_ACT_REDIRECT) {
            Ok(())
        } else {
            Err(Unreadable::Foreign)
        }
    }
}
