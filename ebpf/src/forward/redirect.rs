//! Redirect (`--redirect`): packets to a pod of this node go straight to the pod's device, past the
//! host's stack, and so past its netfilter rules.
//!
//! What the stack would have done is done here: the route decides, a hop is taken off the limit,
//! the link's header is the pod's. What does not fit the device, has come too far, came in where packets from its
//! source may not, or is for a pod whose neighbour is not known yet goes through the stack, which knows
//! what to do with it. So does a packet to or from a pod's device that another program or a queueing discipline is on:
//! `bpf_redirect_peer` passes neither.
//!
//! The way to a pod is remembered for a moment only: a pod that comes back with its address on
//! another device is found there, whether a notification of it arrives or not.

use aya_ebpf::bindings::BPF_FIB_LKUP_RET_SUCCESS;
use shunt_common::{Address as _, Tuple};

use crate::{
    ctx::{
        access::{Access, AccessError},
        verdict::Verdict,
    },
    forward::{
        fib::{self, Routed, longest_packet},
        origin,
    },
    maps::{
        addresses::{is_of_pod, is_pod_interface, is_screened},
        clock,
        constants::{are_pods_told_by_interface, redirects},
        scratch::Hop,
        tables::{HOPS, PEERS},
    },
    packet::{
        family::hop_limit,
        link::{EthernetAddresses, Link},
        offset::Extent,
    },
    rewrite::network::decrement_hop_limit,
};

/// Index of a CPU's remembered hop. Not the hop itself: older verifiers do not see that it is there
/// whenever it was found, after all that is done to the packet in between.
#[derive(Clone, Copy)]
pub(crate) struct HopIndex(u32);

/// Finds the hop that takes the packet with the tuple `came` to the destination of `to`, if that is a pod of this
/// node behind a device of its own and the stack is not needed. `afresh`: looks it up in any case.
#[inline(always)]
pub(crate) fn find<F: Routed>(
    context: &impl Access,
    link: Link,
    extent: Extent,
    came: &Tuple<F>,
    to: &Tuple<F>,
    afresh: bool,
) -> Option<HopIndex> {
    if !redirects() || link != Link::Ethernet {
        return None;
    }
    // By interface, the route decides.
    if !is_of_pod::<F>(&to.destination) && !are_pods_told_by_interface() {
        return None;
    }
    let address = u32::from_be(*to.destination.words().last()?);
    let index = HopIndex((address ^ context.interface() << 6) % HOPS);
    let hop = index.hop::<F>()?;
    let now = clock::kernel_ticks();
    if afresh
        || hop.until <= now
        || hop.address != to.destination
        || hop.from != context.interface()
    {
        hop.look_up(context, extent.network, to, now);
    }
    let goes = hop.interface != 0
        && u32::from(longest_packet(context, extent)) <= hop.mtu
        && hop_limit::<F>(context, extent.network).ok()? > 1
        // The stack judges where any other packet came in.
        && (origin::may_come(context, extent.network, came)
            || origin::is_let_through::<F>(&came.source, context.interface()));
    goes.then_some(index)
}

impl<F: Routed> Hop<F> {
    /// Looks up the way to the destination of `to`.
    #[inline(always)]
    fn look_up(&mut self, context: &impl Access, network: usize, to: &Tuple<F>, now: u64) {
        self.interface = 0;
        self.address = to.destination;
        self.from = context.interface();
        // Who has no neighbour entry yet gets one from the stack, with this packet.
        self.until = 0;
        // For a packet that fits any device, so that the result is the device's MTU.
        let Ok((BPF_FIB_LKUP_RET_SUCCESS, found)) = fib::look_up(context, network, to, 1) else {
            return;
        };
        self.until = now + clock::way_lifetime();
        // SAFETY: the value is not read.
        let is_pair = unsafe { PEERS.get(found.ifindex) }.is_some();
        if !is_pair
            || is_screened(context.interface())
            || !is_of_pod::<F>(&to.destination) && !is_pod_interface(found.ifindex)
        {
            return;
        }
        self.interface = found.ifindex;
        // SAFETY: the helper has put the MTU where the length was.
        self.mtu = unsafe { found.__bindgen_anon_1.mtu_result }.into();
        self.link.destination = bytemuck::cast(found.dmac);
        self.link.source = bytemuck::cast(found.smac);
    }
}

impl HopIndex {
    #[inline(always)]
    fn hop<F: Routed>(self) -> Option<&'static mut Hop<F>> {
        let hop = F::hops().get_ptr_mut(self.0)?;
        // SAFETY: this CPU's own, and no other packet is in its programs before this one is
        // through.
        Some(unsafe { &mut *hop })
    }

    /// Has the kernel hand the packet with its network header at `network` to the pod.
    #[inline(always)]
    pub(crate) fn take<F: Routed>(
        self,
        context: &impl Access,
        network: usize,
    ) -> Result<Verdict, AccessError> {
        decrement_hop_limit::<F>(context, network)?;
        let hop = self.hop::<F>().ok_or(AccessError::Refused)?;
        *context.at_mut::<EthernetAddresses>(0)? = hop.link;
        context.send_to_peer(hop.interface)
    }
}
