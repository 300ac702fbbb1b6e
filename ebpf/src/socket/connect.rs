//! `connect`: the socket is connected to a backend of the frontend that the process asked for.

use shunt_common::{Counter, UDP, V4, V6, socket::Endpoint};

use crate::{
    ctx::sock_addr::{Errno, GOES_ON, SockAddr, fail},
    maps::{
        counters::count,
        sockets::{asked, connected, connected_new},
    },
    socket::{
        frontend::{Outcome, choose, find},
        process::{Addresses, Owner, Process, destination},
    },
};

/// Gives a socket that is to be connected to a frontend the address of a backend.
#[inline(always)]
pub(crate) fn handle<const SIX: bool>(call: &SockAddr<SIX>) -> i32 {
    let Some(owner) = Owner::of(call) else {
        return GOES_ON;
    };
    let Some(protocol) = call.protocol() else {
        return GOES_ON;
    };
    // No agent could end it if its backend goes; packets choose again by themselves.
    if owner == Owner::Pod && protocol == UDP {
        return GOES_ON;
    }
    let process = Process { owner, call };
    let Endpoint { address, port } = call.endpoint();
    match address.v4() {
        Some(address) => connect::<V4, SIX>(&process, address, port, protocol),
        None => connect::<V6, SIX>(&process, address.v6(), port, protocol),
    }
}

#[inline(always)]
fn connect<F: Addresses, const SIX: bool>(
    process: &Process<'_, SIX>,
    address: F::Address,
    port: u16,
    protocol: u8,
) -> i32 {
    let Process { owner, call } = *process;
    let (address, endpoint) = destination::<F>(address, port);
    let outcome = match find::<F>(&address, port, protocol, owner) {
        Some(frontend) => choose(frontend, endpoint, process),
        None => Outcome::Untouched,
    };
    match outcome {
        Outcome::Goes(pair) => {
            let Some(storage) = connected_new(&call.0) else {
                return fail(Errno::NoMemory);
            };
            storage.set(&pair);
            call.set_endpoint(&pair.peer);
            count(Counter::SocketConnect);
            GOES_ON
        }
        Outcome::Untouched => {
            forget(call, &endpoint);
            GOES_ON
        }
        Outcome::Fails(result) => result,
    }
}

/// Whoever answers from there from now on was asked itself.
#[inline(always)]
fn forget<const SIX: bool>(call: &SockAddr<SIX>, peer: &Endpoint) {
    if let Some(pair) = connected(&call.0) {
        pair.clear();
    }
    if let Some(pairs) = asked(&call.0) {
        pairs.forget(peer);
    }
}
