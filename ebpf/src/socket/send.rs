//! Datagrams that a process sends to an address of its choice, over a socket that may serve many.

use shunt_common::{
    Counter, V4, V6,
    socket::{Endpoint, Remembered},
};

use crate::{
    ctx::sock_addr::{Errno, GOES_ON, SockAddr, fail},
    maps::{
        backends::is_current,
        counters::count,
        sockets::{asked, asked_new, connected},
    },
    socket::{
        frontend::{Outcome, choose, find},
        process::{Addresses, Owner, Process, destination},
    },
};

/// Sends a datagram for a frontend to a backend: to the one that had the socket's datagram before, as
/// long as it is there.
#[inline(always)]
pub(crate) fn handle<const SIX: bool>(call: &SockAddr<SIX>) -> i32 {
    let Some(owner) = Owner::of(call) else {
        return GOES_ON;
    };
    let Some(protocol) = call.protocol() else {
        return GOES_ON;
    };
    let process = Process { owner, call };
    let Endpoint { address, port } = call.endpoint();
    match address.v4() {
        Some(address) => send::<V4, SIX>(&process, address, port, protocol),
        None => send::<V6, SIX>(&process, address.v6(), port, protocol),
    }
}

#[inline(always)]
fn send<F: Addresses, const SIX: bool>(
    process: &Process<'_, SIX>,
    address: F::Address,
    port: u16,
    protocol: u8,
) -> i32 {
    let Process { owner, call } = *process;
    let (address, endpoint) = destination::<F>(address, port);
    // A connected socket hears its peer alone.
    if call.is_connected() {
        if owner == Owner::Pod {
            // That is the frontend, and packets bring its answers.
            return GOES_ON;
        }
        if let Some(storage) = connected(&call.0)
            && let Some(pair) = storage.read()
            && pair.frontend == endpoint
        {
            call.set_endpoint(&pair.peer);
            return GOES_ON;
        }
    }
    let pairs = asked(&call.0);
    let frontend = find::<F>(&address, port, protocol, owner);
    let mut known = None;
    if frontend.is_some()
        && let Some(pairs) = pairs
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
    let outcome = match frontend {
        Some(frontend) => choose(frontend, endpoint, process),
        None => Outcome::Untouched,
    };
    match outcome {
        Outcome::Goes(pair) => {
            let Some(storage) = asked_new(&call.0) else {
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
            GOES_ON
        }
        Outcome::Untouched => {
            if let Some(pairs) = pairs {
                pairs.forget(&endpoint);
            }
            GOES_ON
        }
        Outcome::Fails(result) => result,
    }
}
