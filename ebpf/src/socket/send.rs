//! Datagrams that a process sends to an address of its choice, over a socket that may serve many.

use shunt_common::{
    Counter, V4, V6,
    socket::{Endpoint, Remembered},
};

use crate::{
    ctx::sock_addr::{Errno, FAILS, GOES_ON, SockAddr, fail},
    maps::{
        backends::{count_connection, is_current},
        counters::count,
        services::count_connected,
        sockets::{asked, asked_new},
    },
    socket::{
        frontend::{Outcome, choose, find},
        guard,
        peer::current,
        process::{Addresses, Owner, Process, by_family, destination, forget_answers},
    },
};

/// Sends a datagram for a frontend to a backend: to the one that had the socket's datagram before, as
/// long as it is there.
#[inline(always)]
pub(crate) fn handle<const SIX: bool>(call: &SockAddr<SIX>) -> i32 {
    by_family(call, send::<V4, SIX>, send::<V6, SIX>)
}

#[inline(always)]
fn send<F: Addresses, const SIX: bool>(
    call: &SockAddr<SIX>,
    address: F::Address,
    port: u16,
    protocol: u8,
) -> i32 {
    let (address, endpoint) = destination::<F>(address, port);
    // A connected socket hears its peer alone.
    if call.is_connected() {
        // An IPv6 socket's `send` to an IPv4 peer comes here, as if the process had given the address
        // (`udpv6_sendmsg` of net/ipv6/udp.c).
        if call.peer() == endpoint {
            return GOES_ON;
        }
        if let Some(pair) = current(call)
            && pair.frontend == endpoint
        {
            call.set_endpoint(&pair.peer);
            return GOES_ON;
        }
    }
    let Some((frontend, owner)) = find::<F, SIX>(&address, port, protocol, call) else {
        return match guard::judge::<F, SIX>(&address, call) {
            Outcome::Fails(result) => result,
            Outcome::Denied => FAILS,
            _ => untouched(call, &endpoint),
        };
    };
    if owner == Owner::Pod && call.is_connected() {
        // Its peer is the frontend, and packets bring its answers.
        return GOES_ON;
    }
    let mut known = None;
    if let Some(pairs) = asked(call.socket())
        && let Some(place) = pairs.find(&endpoint)
    {
        known = Some(place);
        if let Some(pair) = pairs.read(place)
            && pair.frontend == endpoint
            && is_current::<F>(pair.backend, pair.generation)
        {
            pairs.ask(place);
            call.set_endpoint(&pair.peer);
            return GOES_ON;
        }
    }
    match choose(frontend, endpoint, &Process { owner, call }) {
        Outcome::Goes(pair, service) => {
            let Some(storage) = asked_new(call.socket()) else {
                return fail(Errno::NoMemory);
            };
            match storage.remember(&pair, known) {
                Remembered::Kept => {}
                Remembered::InPlaceOfOldest => count(Counter::SocketForgotten),
                // The sender of an answer could not be named.
                Remembered::Not => return fail(Errno::TryAgain),
            }
            call.set_endpoint(&pair.peer);
            count(Counter::SocketDatagram);
            count_connected(service);
            count_connection::<F>(pair.backend);
            GOES_ON
        }
        Outcome::Untouched => untouched(call, &endpoint),
        Outcome::Fails(result) => result,
        Outcome::Denied => FAILS,
    }
}

/// Lets the datagram go where the process has addressed it.
#[inline(always)]
fn untouched<const SIX: bool>(call: &SockAddr<SIX>, peer: &Endpoint) -> i32 {
    forget_answers(call, peer);
    GOES_ON
}
