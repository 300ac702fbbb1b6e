//! The other side as a process sees it: the frontend that it asked, not the backend.

use shunt_common::socket::{Endpoint, Pair};

use crate::{
    ctx::sock_addr::{GOES_ON, SockAddr},
    maps::sockets::{asked, connected},
    socket::peer::with_peer,
};

/// Names the frontend as the sender of a datagram, if its backend has sent it.
#[inline(always)]
pub(crate) fn received<const SIX: bool>(call: &SockAddr<SIX>) -> i32 {
    let Some(last) = connected(call.socket()) else {
        return GOES_ON;
    };
    let sender = call.endpoint();
    // A socket that has lost its peer (`connect` with `AF_UNSPEC`) passes no program that could
    // forget it.
    if call.is_connected() && name(call, &sender, with_peer(call, last, &sender)) {
        return GOES_ON;
    }
    if let Some(pairs) = asked(call.socket())
        && let Some(place) = pairs.find_peer(&sender)
    {
        name(call, &sender, pairs.read(place));
    }
    GOES_ON
}

/// Names the frontend as the peer, if the socket is connected to its backend.
#[inline(always)]
pub(crate) fn peer<const SIX: bool>(call: &SockAddr<SIX>) -> i32 {
    if let Some(last) = connected(call.socket()) {
        let peer = call.endpoint();
        name(call, &peer, with_peer(call, last, &peer));
    }
    GOES_ON
}

/// Puts the pair's frontend in place of its peer, if the address is that.
#[inline(always)]
fn name<const SIX: bool>(call: &SockAddr<SIX>, peer: &Endpoint, pair: Option<Pair>) -> bool {
    let Some(pair) = pair else { return false };
    if pair.peer != *peer {
        return false;
    }
    call.set_endpoint(&pair.frontend);
    true
}
