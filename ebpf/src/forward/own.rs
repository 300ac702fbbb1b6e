//! Marks of packets that the programs have sent on themselves.
//!
//! The packet carries its mark in `skb->tc_index` to our next hook: nothing is between them. At egress a mark
//! distinguishes our packets from the host's. At a second ingress, of a bridge behind its port, it distinguishes a
//! service's packet from one that its client has sent to the backend itself, and at a second egress their replies.

use crate::ctx::access::Access;

/// Another one than those of [`crate::forward::stack`].
const TAG: u16 = 0xc000;
/// A client's, which the host's rules may still give another source.
const REQUEST: u16 = 0xc001;
/// One that has got back its client's source port, which a service's connection has towards the same backend.
const DIRECT_REPLY: u16 = 0xc002;

/// Marks the packet as sent on by us.
#[inline(always)]
pub(crate) fn mark(context: &impl Access) {
    context.set_tag(TAG);
}

/// Returns whether it is marked so.
#[inline(always)]
pub(crate) fn is_marked(context: &impl Access) -> bool {
    context.tag() == TAG
}

/// Marks the packet as a client's that we have translated.
#[inline(always)]
pub(crate) fn mark_request(context: &impl Access) {
    context.set_tag(REQUEST);
}

/// Marks the packet as a reply of a connection to a backend itself, which has its client's port again.
#[inline(always)]
pub(crate) fn mark_direct_reply(context: &impl Access) {
    context.set_tag(DIRECT_REPLY);
}

/// Returns whether the packet is such a reply: at a second egress it looks like a service's.
#[inline(always)]
pub(crate) fn is_direct_reply(context: &impl Access) -> bool {
    context.tag() == DIRECT_REPLY
}

/// Returns whether the packet is a client's that we have translated.
#[inline(always)]
pub(crate) fn is_request(context: &impl Access) -> bool {
    context.tag() == REQUEST
}
