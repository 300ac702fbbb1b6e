//! Sending a packet back where it came from, past the stack.

use aya_ebpf::{
    bindings::TC_ACT_REDIRECT, cty::c_long, helpers::bpf_redirect, programs::TcContext,
};

use crate::{
    frame::{EthernetAddresses, Unreadable, at_mut},
    packet::Link,
};

/// Has the kernel send the packet out of the interface that it came in by, to the station that
/// sent it; the program has to end with [`crate::verdict::Verdict::REDIRECT`].
#[inline(always)]
pub fn turn_back(context: &TcContext, link: Link) -> Result<(), Unreadable> {
    if link == Link::Ethernet {
        let ethernet = at_mut::<EthernetAddresses>(context, 0)?;
        core::mem::swap(&mut ethernet.destination, &mut ethernet.source);
    }
    // SAFETY: the context is the kernel's; the helper takes any interface index.
    let redirected = unsafe { bpf_redirect((*context.skb.skb).ifindex, 0) };
    if redirected == c_long::from(TC_ACT_REDIRECT) {
        Ok(())
    } else {
        Err(Unreadable::Foreign)
    }
}
