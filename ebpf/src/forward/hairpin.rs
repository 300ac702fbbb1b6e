//! Sending a packet back where it came from, past the stack.

use crate::{
    ctx::{
        access::{Access, AccessError},
        verdict::Verdict,
    },
    packet::link::{EthernetAddresses, Link},
};

/// Has the kernel send the packet out of the interface that it came in by, to the station that
/// sent it.
#[inline(always)]
pub(crate) fn send_back(context: &impl Access, link: Link) -> Result<Verdict, AccessError> {
    if link == Link::Ethernet {
        let ethernet = context.at_mut::<EthernetAddresses>(0)?;
        core::mem::swap(&mut ethernet.destination, &mut ethernet.source);
    }
    context.send_back()
}
