//! Peer of a socket.
//!
//! A program at `connect` runs before the kernel looks for a route. If there is none, the call fails,
//! and a UDP socket that had a peer keeps it. So the pair before is kept beside the last one, and
//! whichever has the peer of the socket counts.

use shunt_common::{
    UDP,
    socket::{Endpoint, Pair, PairIn},
};

use crate::{
    ctx::sock_addr::SockAddr,
    maps::{
        conntrack::Words,
        sockets::{before, before_new, connected},
    },
};

/// The pair that the socket is connected to, if it is to a frontend's backend.
#[inline(always)]
pub(crate) fn current<const SIX: bool>(call: &SockAddr<SIX>) -> Option<Pair> {
    let last = connected(call.socket())?;
    with_peer(call, last, &call.peer())
}

/// The pair with this peer: that of the `last` connect, or the one before.
#[inline(always)]
pub(crate) fn with_peer<const SIX: bool>(
    call: &SockAddr<SIX>,
    last: PairIn<Words>,
    peer: &Endpoint,
) -> Option<Pair> {
    if let Some(pair) = last.read()
        && pair.peer == *peer
    {
        return Some(pair);
    }
    let pair = before(call.socket())?.read()?;
    (pair.peer == *peer).then_some(pair)
}

/// Keeps the `last` pair, before a call that gives the socket the peer `next`, if the kernel lets it.
/// `None` if it has no memory.
#[inline(always)]
pub(crate) fn keep<const SIX: bool>(
    call: &SockAddr<SIX>,
    protocol: u8,
    last: PairIn<Words>,
    next: &Endpoint,
) -> Option<()> {
    // A TCP socket that has a peer does not get another one.
    if protocol == UDP
        && call.is_connected()
        && let Some(pair) = last.read()
        && pair.peer != *next
        && pair.peer == call.peer()
    {
        before_new(call.socket())?.set(&pair);
    }
    Some(())
}
