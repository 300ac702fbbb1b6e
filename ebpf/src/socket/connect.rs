//! `connect`: the socket is connected to a backend of the frontend that the process asked for.

use shunt_common::{Counter, UDP, V4, V6, socket::Endpoint};

use crate::{
    ctx::sock_addr::{Errno, GOES_ON, SockAddr, fail},
    maps::{
        counters::count,
        services::count_connected,
        sockets::{connected, connected_new},
    },
    socket::{
        frontend::{Outcome, choose, find},
        guard,
        process::{Addresses, Owner, Process, by_family, destination, forget_answers},
    },
};

/// Gives a socket that is to be connected to a frontend the address of a backend.
#[inline(always)]
pub(crate) fn handle<const SIX: bool>(call: &SockAddr<SIX>) -> i32 {
    by_family(call, connect::<V4, SIX>, connect::<V6, SIX>)
}

#[inline(always)]
fn connect<F: Addresses, const SIX: bool>(
    call: &SockAddr<SIX>,
    address: F::Address,
    port: u16,
    protocol: u8,
) -> i32 {
    let (address, endpoint) = destination::<F>(address, port);
    let outcome = match find::<F, SIX>(&address, port, protocol, call) {
        // No agent could end it if its backend goes; packets choose again by themselves.
        Some((_, Owner::Pod)) if protocol == UDP => Outcome::Untouched,
        Some((frontend, owner)) => choose(frontend, endpoint, &Process { owner, call }),
        None => guard::judge::<F, SIX>(&address, call),
    };
    match outcome {
        Outcome::Goes(pair, service) => {
            let Some(storage) = connected_new(&call.0) else {
                return fail(Errno::NoMemory);
            };
            storage.set(&pair);
            call.set_endpoint(&pair.peer);
            count(Counter::SocketConnect);
            count_connected(service);
            GOES_ON
        }
        Outcome::Untouched => {
            forget(call, &endpoint);
            GOES_ON
        }
        Outcome::Fails(result) => result,
    }
}

/// The socket has this peer, and no frontend.
#[inline(always)]
fn forget<const SIX: bool>(call: &SockAddr<SIX>, peer: &Endpoint) {
    if let Some(pair) = connected(&call.0) {
        pair.clear();
        forget_answers(call, peer);
    }
}
