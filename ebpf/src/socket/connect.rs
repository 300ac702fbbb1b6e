//! `connect`: the socket is connected to a backend of the frontend that the process asked for.

use shunt_common::{Counter, UDP, V4, V6, socket::Endpoint};

use crate::{
    ctx::sock_addr::{Errno, GOES_ON, SockAddr, fail},
    maps::{
        backends::count_connection,
        counters::count,
        services::count_connected,
        sockets::{before, connected, connected_new},
    },
    socket::{
        frontend::{Outcome, choose, find},
        guard,
        kernel_thread::deny,
        peer::keep,
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
            let Some(storage) = connected_new(call.socket()) else {
                return fail(Errno::NoMemory);
            };
            if keep(call, protocol, storage, &pair.peer).is_none() {
                return fail(Errno::NoMemory);
            }
            storage.set(&pair);
            call.set_endpoint(&pair.peer);
            count(Counter::SocketConnect);
            count_connected(service);
            count_connection::<F>(pair.backend);
            GOES_ON
        }
        Outcome::Untouched => {
            forget(call, protocol, &endpoint);
            GOES_ON
        }
        Outcome::Fails(result) => result,
        Outcome::Denied => deny(protocol),
    }
}

/// The socket gets this peer, and no frontend.
#[inline(always)]
fn forget<const SIX: bool>(call: &SockAddr<SIX>, protocol: u8, peer: &Endpoint) {
    if let Some(last) = connected(call.socket()) {
        // Without memory the call is none of ours all the same.
        let _ = keep(call, protocol, last, peer);
        last.clear();
        if let Some(before) = before(call.socket()) {
            before.forget(peer);
        }
        forget_answers(call, peer);
    }
}
