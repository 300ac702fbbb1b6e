//! Owner of a socket, and its addresses by family.

use aya_ebpf::bindings::{
    bpf_sock_tuple, bpf_sock_tuple__bindgen_ty_1 as Tuples,
    bpf_sock_tuple__bindgen_ty_1__bindgen_ty_1 as TupleV4,
    bpf_sock_tuple__bindgen_ty_1__bindgen_ty_2 as TupleV6,
};
use shunt_common::{
    Address as _, Cell, Family, NodeIps, V4, V6,
    maglev::client_number,
    socket::{Endpoint, Mapped},
};

use crate::{
    ctx::sock_addr::{GOES_ON, SockAddr},
    lb::{
        client::{Client, draw},
        maglev::slot_by,
    },
    maps::{
        constants::{HOST_NETNS, SOCKETS_OF_PODS},
        sockets::asked,
        tables::Tables,
    },
};

/// Owner of a socket.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A process in the node's own network namespace.
    Host,
    /// One in a pod's.
    Pod,
}

impl Owner {
    /// Returns the owner of the call's socket; `None` if it is not translated here.
    #[inline(always)]
    pub(crate) fn of<const SIX: bool>(call: &SockAddr<SIX>) -> Option<Self> {
        if call.is_of(HOST_NETNS.load()) {
            Some(Self::Host)
        } else if SOCKETS_OF_PODS.load() != 0 {
            Some(Self::Pod)
        } else {
            None
        }
    }
}

/// A family's addresses as sockets have them.
pub(crate) trait Addresses: Tables {
    /// The address by which a host reaches itself, network order.
    const LOOPBACK: Self::Address;

    /// Returns whether the host reaches itself by it.
    fn is_loopback(address: &Self::Address) -> bool;

    /// The length of the family's part of [`Self::tuple_to`].
    const TUPLE_LENGTH: u32;

    /// The tuple of a packet from anywhere to this address and port, network order.
    fn tuple_to(address: Self::Address, port: u16) -> bpf_sock_tuple;

    /// The address in the form of sockets.
    fn mapped(address: Self::Address) -> Mapped;

    /// The address that the call's socket is bound to, unspecified if it is to none.
    fn bound<const SIX: bool>(call: &SockAddr<SIX>) -> Self::Address;
}

impl Addresses for V4 {
    const LOOPBACK: u32 = u32::from_ne_bytes([127, 0, 0, 1]);

    #[inline(always)]
    fn is_loopback(address: &u32) -> bool {
        address.to_ne_bytes()[0] == 127
    }

    const TUPLE_LENGTH: u32 = size_of::<TupleV4>() as u32;

    #[inline(always)]
    fn tuple_to(address: u32, port: u16) -> bpf_sock_tuple {
        let ipv4 = TupleV4 {
            saddr: 0,
            daddr: address,
            sport: 0,
            dport: port,
        };
        bpf_sock_tuple {
            __bindgen_anon_1: Tuples { ipv4 },
        }
    }

    #[inline(always)]
    fn mapped(address: u32) -> Mapped {
        Mapped::of_v4(address)
    }

    #[inline(always)]
    fn bound<const SIX: bool>(call: &SockAddr<SIX>) -> u32 {
        call.bound_v4()
    }
}

impl Addresses for V6 {
    const LOOPBACK: [u32; 4] = [0, 0, 0, u32::from_ne_bytes([0, 0, 0, 1])];

    #[inline(always)]
    fn is_loopback(address: &[u32; 4]) -> bool {
        *address == Self::LOOPBACK
    }

    const TUPLE_LENGTH: u32 = size_of::<TupleV6>() as u32;

    #[inline(always)]
    fn tuple_to(address: [u32; 4], port: u16) -> bpf_sock_tuple {
        let ipv6 = TupleV6 {
            saddr: [0; 4],
            daddr: address,
            sport: 0,
            dport: port,
        };
        bpf_sock_tuple {
            __bindgen_anon_1: Tuples { ipv6 },
        }
    }

    #[inline(always)]
    fn mapped(address: [u32; 4]) -> Mapped {
        Mapped::of_v6(address)
    }

    #[inline(always)]
    fn bound<const SIX: bool>(call: &SockAddr<SIX>) -> [u32; 4] {
        call.bound_v6()
    }
}

/// Returns the destination that a process asks for, as the kernel takes it: the unspecified address is the host itself.
#[inline(always)]
pub(crate) fn destination<F: Addresses>(address: F::Address, port: u16) -> (F::Address, Endpoint) {
    let address = if address.is_unspecified() {
        F::LOOPBACK
    } else {
        address
    };
    let endpoint = Endpoint {
        address: F::mapped(address),
        port,
    };
    (address, endpoint)
}

/// Handles what the process asks for by its family's function, which gets the address, the port in
/// network order, and the protocol. A call of another protocol goes on.
#[inline(always)]
pub(crate) fn by_family<const SIX: bool>(
    call: &SockAddr<SIX>,
    v4: impl FnOnce(&SockAddr<SIX>, <V4 as Family>::Address, u16, u8) -> i32,
    v6: impl FnOnce(&SockAddr<SIX>, <V6 as Family>::Address, u16, u8) -> i32,
) -> i32 {
    let Some(protocol) = call.protocol() else {
        return GOES_ON;
    };
    let Endpoint { address, port } = call.endpoint();
    match address.v4() {
        Some(address) => v4(call, address, port, protocol),
        None => v6(call, address.v6(), port, protocol),
    }
}

/// Forgets the frontends for which this peer answers: a host that answers from there from now on was asked
/// itself.
#[inline(always)]
pub(crate) fn forget_answers<const SIX: bool>(call: &SockAddr<SIX>, peer: &Endpoint) {
    if let Some(pairs) = asked(call.socket()) {
        pairs.forget(peer);
    }
}

/// The process as a client of load balancing.
pub(crate) struct Process<'a, const SIX: bool> {
    pub(crate) owner: Owner,
    pub(crate) call: &'a SockAddr<SIX>,
}

impl<F: Addresses, const SIX: bool> Client<F> for Process<'_, SIX> {
    /// Of the host, the address that the socket is bound to, or the node's primary one. Of a pod it is
    /// the business of its packets, so that all its sockets agree: not every one is seen here.
    #[inline(always)]
    fn address(&self) -> Option<F::Address> {
        if self.owner == Owner::Pod {
            return None;
        }
        let bound = F::bound(self.call);
        if !bound.is_unspecified() && !F::is_loopback(&bound) {
            return Some(bound);
        }
        F::node().get(0).map(|NodeIps { snat, .. }| *snat)
    }

    #[inline(always)]
    fn is_on_this_node(&self) -> bool {
        true
    }

    /// A socket has no source port yet. So it draws its entry, as no other program ever has to find it: its
    /// packets go to the backend itself. Only of a client that stays with its backend all nodes choose the
    /// same.
    #[inline(always)]
    fn maglev_slot(&self, cell: Cell) -> Option<u32> {
        slot_by::<F>(cell, |stays| match Client::<F>::address(self) {
            Some(address) if stays => client_number::<F>(address),
            _ => draw(),
        })
    }
}
