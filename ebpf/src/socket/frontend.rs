//! The frontend that a process asks for, and the backend that it gets.

use shunt_common::{
    Address as _, Cell, Counter, FrontendKey, NodeIps,
    socket::{Endpoint, Pair},
};

use crate::{
    ctx::sock_addr::{Errno, SockAddr, fail},
    lb::frontend::{self, Lookup, select_in},
    maps::{
        backends::Choice,
        counters::count,
        guarded::Filtered,
        services::{count_refusal, service_of},
    },
    socket::process::{Addresses, Owner, Process},
};

/// A frontend: its key, its index, and its cell.
pub(crate) type Frontend<F> = (FrontendKey<F>, u32, Cell);

/// Finds the frontend at this address and port, network order, and the owner of the calling socket. `None` if
/// there is no such frontend or owner, or the family is left out. A NodePort is a frontend at the host's
/// loopback addresses too, for processes of the host, unless a socket of the host's is there.
#[inline(always)]
pub(crate) fn find<F: Addresses, const SIX: bool>(
    address: &F::Address,
    port: u16,
    protocol: u8,
    call: &SockAddr<SIX>,
) -> Option<(Frontend<F>, Owner)> {
    if !F::is_translated() {
        return None;
    }
    // Most calls are for no frontend: one word shows that, and it does not matter then whose socket it is.
    if Filtered::of::<F>(address).has_frontends() {
        let key = FrontendKey::<F>::new(*address, port, protocol);
        if let Some((index, cell)) = frontend::find(key) {
            return Some(((key, index, cell), Owner::of(call)?));
        }
    }
    if F::has_local_node_ports() && F::is_loopback(address) && Owner::of(call) == Some(Owner::Host)
    {
        let frontend = node_port::<F>(port, protocol)?;
        let mut tuple = F::tuple_to(*address, port);
        if !call.is_served(&mut tuple, F::TUPLE_LENGTH, protocol) {
            return Some((frontend, Owner::Host));
        }
    }
    None
}

/// The NodePort with this number at one of the node's own addresses.
#[inline(always)]
pub(crate) fn node_port<F: Addresses>(port: u16, protocol: u8) -> Option<Frontend<F>> {
    if !F::is_translated() {
        return None;
    }
    let node = F::node().get(0)?;
    for place in 0..NodeIps::<F>::CAPACITY {
        let own = node.own[place];
        if own.is_unspecified() {
            continue;
        }
        let key = FrontendKey::<F>::new(own, port, protocol);
        if let Some((index, cell)) = frontend::find(key)
            && cell.has(Cell::NODE_PORT)
        {
            return Some((key, index, cell));
        }
    }
    None
}

/// Outcome of a system call that asks for a frontend.
pub(crate) enum Outcome {
    /// The socket is to go to this pair's peer, a backend of the service port with this number.
    Goes(Pair, u32),
    /// It is left to packets.
    Untouched,
    /// It fails: what the program returns.
    Fails(i32),
    /// It is not permitted.
    Denied,
}

/// Selects a backend of the frontend for the process, which asked for it as `asked`.
#[inline(always)]
pub(crate) fn choose<F: Addresses, const SIX: bool>(
    (key, index, cell): Frontend<F>,
    asked: Endpoint,
    process: &Process<'_, SIX>,
) -> Outcome {
    let selected = select_in(key, cell, process);
    let service = service_of::<F>(index);
    match selected {
        // The kernel reports that of IPv4 by itself; an IPv6 packet would leave with an address that
        // no host answers to.
        Lookup::Backend(Choice { backend, .. }, _)
            if F::is_loopback(&F::bound(process.call)) && !F::is_loopback(&backend.address) =>
        {
            Outcome::Fails(fail(Errno::Invalid))
        }
        Lookup::Backend(choice, _) => {
            let backend = choice.backend;
            let pair = Pair {
                frontend: asked,
                peer: Endpoint {
                    address: F::mapped(backend.address),
                    port: backend.port,
                },
                backend: choice.index,
                generation: choice.generation(),
            };
            Outcome::Goes(pair, service)
        }
        Lookup::NotAFrontend => Outcome::Untouched,
        Lookup::Rejected => {
            count(Counter::SocketReject);
            count_refusal(service, Counter::RejectNoBackend as u32);
            Outcome::Fails(fail(Errno::ConnectionRefused))
        }
        Lookup::Dropped(reason) => {
            count(Counter::SocketDrop);
            count_refusal(service, reason as u32);
            Outcome::Denied
        }
    }
}
