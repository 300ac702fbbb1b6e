//! Connections that netfilter translates: those of kube-proxy, while Shunt takes over from it.
//!
//! Their packets are for frontends of ours, and of no connection that we know. To open one would give them
//! another backend, which answers with a reset. So whatever does not begin a connection goes on to
//! the stack as it came, where netfilter knows it, and new connections are ours.

use shunt_common::{Family, UDP, variables::UNKNOWN_CONNECTIONS};

use crate::{maps::variables::VARIABLES, packet::parsed::Packet};

/// Returns whether the packet, which is of no connection that we know, may be of one that netfilter
/// translates. A UDP packet does not show that, and begins a connection.
#[inline(always)]
pub(crate) fn may_know<F: Family>(packet: &Packet<F>) -> bool {
    packet.protocol != UDP && !packet.may_be_first && may_translate()
}

/// Returns whether netfilter may translate connections to frontends of ours.
#[inline(always)]
pub(crate) fn may_translate() -> bool {
    let left = VARIABLES.get(UNKNOWN_CONNECTIONS);
    left.is_some_and(|left| *left != 0)
}
