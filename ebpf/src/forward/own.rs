//! Which packets the programs have sent on themselves, told where they go out from those of the host.
//!
//! The packet carries that in `skb->tc_index`, between our ingress and our egress: nobody is between them.

use crate::ctx::access::Access;

/// Another one than those of [`crate::forward::stack`].
const TAG: u16 = 0xc000;

/// Marks the packet as sent on by us.
#[inline(always)]
pub(crate) fn mark(context: &impl Access) {
    context.set_tag(TAG);
}

/// Whether it is marked so.
#[inline(always)]
pub(crate) fn is_marked(context: &impl Access) -> bool {
    context.tag() == TAG
}
