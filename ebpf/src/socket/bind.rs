//! `bind`: ports of services are not given away, where that is wanted.

use shunt_common::{Address as _, Cell, Counter, FrontendKey, V4, V6, socket::Endpoint};

use crate::{
    ctx::sock_addr::{Errno, GOES_ON, SockAddr, fail},
    lb::frontend::cell_of,
    maps::counters::count,
    socket::{
        frontend::node_port,
        process::{Addresses, Owner},
    },
};

/// Refuses a process of the host the port of a NodePort: it would never be asked there.
#[inline(always)]
pub(crate) fn handle<const SIX: bool>(call: &SockAddr<SIX>) -> i32 {
    if Owner::of(call) != Some(Owner::Host) {
        return GOES_ON;
    }
    let Some(protocol) = call.protocol() else {
        return GOES_ON;
    };
    let Endpoint { address, port } = call.endpoint();
    let is_taken = match address.v4() {
        Some(address) => is_node_port::<V4>(&address, port, protocol),
        None => {
            let address = address.v6();
            // A socket that is bound to all addresses may have those of IPv4 too.
            is_node_port::<V6>(&address, port, protocol)
                || address.is_unspecified() && is_node_port::<V4>(&0, port, protocol)
        }
    };
    if !is_taken {
        return GOES_ON;
    }
    count(Counter::BindRefused);
    fail(Errno::AddressInUse)
}

/// Returns whether the port is a NodePort at this address of the host, or at any of them.
#[inline(always)]
fn is_node_port<F: Addresses>(address: &F::Address, port: u16, protocol: u8) -> bool {
    if address.is_unspecified() || F::has_local_node_ports() && F::is_loopback(address) {
        return node_port::<F>(port, protocol).is_some();
    }
    let key = FrontendKey::<F>::new(*address, port, protocol);
    cell_of(key).is_some_and(|cell| cell.has(Cell::NODE_PORT))
}
