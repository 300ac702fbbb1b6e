//! System calls of processes on sockets.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use aya_ebpf::{
    bindings::{bpf_sock, bpf_sock_addr},
    world::{self, Answers, Deed, Place},
};
use shunt_common::socket::{Asked, Connected};

use crate::{
    hooks::cgroup,
    programs::Programs,
    tables,
    way::{v6, words},
};

/// A process's action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// `connect(2)`.
    Connect,
    /// `sendto(2)` of a datagram to an address.
    Send,
    /// `recvfrom(2)` of a datagram, which has come from an address.
    Receive,
    /// `getpeername(2)` of a socket that has the address for its peer.
    NamePeer,
    /// `bind(2)`.
    Bind,
}

/// A socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Socket {
    /// The IANA number of its protocol.
    pub protocol: u8,
    /// The address that it is bound to, of the socket's family; unspecified if it is to none.
    pub bound: IpAddr,
    /// The address that it is connected to; an IPv4 address that an IPv6 socket has is in the mapped form.
    pub peer: Option<SocketAddr>,
    /// The programs' storage of it.
    pub remembered: Remembered,
}

/// The programs' storage of a socket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Remembered {
    /// The frontend that it was connected to last.
    pub connected: Option<Connected>,
    /// The one before.
    pub before: Option<Connected>,
    /// Frontends that it asked without being connected.
    pub asked: Option<Asked>,
}

/// A system call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The process's action.
    pub action: Action,
    /// The socket.
    pub socket: Socket,
    /// The address that the process gives, or is to receive. One of IPv4 goes to the program of that family, whatever
    /// the socket's is: so the kernel does it where a call takes both.
    pub to: SocketAddr,
}

/// Outcome of a system call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallOutcome {
    /// The address that it goes on with; `None` if it fails.
    pub to: Option<SocketAddr>,
    /// The error that it fails with, a negative number, if the program sets one: else it is `EPERM`.
    pub error: Option<i32>,
    /// The socket's storage after the call.
    pub remembered: Remembered,
    /// The program's actions on its way, in its order.
    pub deeds: Vec<Deed>,
}

/// `TCP_ESTABLISHED` and `TCP_CLOSE` of `net/tcp_states.h`, which are states of UDP sockets too.
const ESTABLISHED: u32 = 1;
const CLOSED: u32 = 7;

/// The IPv4 address of an IPv6 socket that is bound to an address which IPv4 does not know (`LOOPBACK4_IPV6` of
/// `net/ipv6.h`).
const OF_IPV6: [u8; 4] = [127, 0, 0, 6];

impl Socket {
    /// One that has asked nothing before, and is bound to this address.
    pub fn new(protocol: u8, bound: IpAddr) -> Self {
        Self {
            protocol,
            bound,
            peer: None,
            remembered: Remembered::default(),
        }
    }

    /// It as the kernel shows it.
    fn shown(&self) -> bpf_sock {
        // SAFETY: words and unions of them.
        let mut socket: bpf_sock = unsafe { core::mem::zeroed() };
        socket.protocol = self.protocol.into();
        match self.bound {
            IpAddr::V4(address) => socket.src_ip4 = word(address.octets()),
            IpAddr::V6(address) => {
                socket.src_ip6 = words(address);
                socket.src_ip4 = match address.to_ipv4_mapped() {
                    Some(address) => word(address.octets()),
                    None if address.is_unspecified() => 0,
                    None => word(OF_IPV6),
                };
            }
        }
        socket.state = CLOSED;
        if let Some(peer) = self.peer {
            socket.state = ESTABLISHED;
            socket.dst_port = peer.port().to_be();
            match peer.ip() {
                IpAddr::V4(address) => socket.dst_ip4 = word(address.octets()),
                IpAddr::V6(address) => {
                    socket.dst_ip6 = words(address);
                    let mapped = address.to_ipv4_mapped();
                    socket.dst_ip4 = mapped.map_or(0, |address| word(address.octets()));
                }
            }
        }
        socket
    }
}

/// The four bytes of an address as they stand in memory.
const fn word(bytes: [u8; 4]) -> u32 {
    u32::from_ne_bytes(bytes)
}

impl Programs {
    /// Runs the program at a system call.
    pub fn call(&mut self, call: &Call, answers: Box<dyn Answers>) -> CallOutcome {
        let Call { action, socket, to } = call;
        let mut shown = socket.shown();
        let key = (&raw const shown) as usize;
        // The socket's address names it in the tables, and is another one's soon.
        tables::forget_sockets();
        tables::remember(key, &socket.remembered);
        // SAFETY: words, and a pointer that is set next.
        let mut context: bpf_sock_addr = unsafe { core::mem::zeroed() };
        context.__bindgen_anon_1.sk = &raw mut shown;
        context.protocol = socket.protocol.into();
        context.user_port = to.port().to_be().into();
        let asked = match to.ip() {
            // A datagram for such an address is sent by the function of IPv4 (`udpv6_sendmsg` of
            // net/ipv6/udp.c).
            IpAddr::V6(address) if *action == Action::Send => address.to_canonical(),
            address => address,
        };
        match asked {
            IpAddr::V4(address) => context.user_ip4 = word(address.octets()),
            IpAddr::V6(address) => context.user_ip6 = words(address),
        }
        let program: fn(*mut bpf_sock_addr) -> i32 = match (action, asked) {
            (Action::Connect, IpAddr::V4(_)) => cgroup::sock_connect4,
            (Action::Connect, IpAddr::V6(_)) => cgroup::sock_connect6,
            (Action::Send, IpAddr::V4(_)) => cgroup::sock_sendmsg4,
            (Action::Send, IpAddr::V6(_)) => cgroup::sock_sendmsg6,
            (Action::Receive, IpAddr::V4(_)) => cgroup::sock_recvmsg4,
            (Action::Receive, IpAddr::V6(_)) => cgroup::sock_recvmsg6,
            (Action::NamePeer, IpAddr::V4(_)) => cgroup::sock_getpeername4,
            (Action::NamePeer, IpAddr::V6(_)) => cgroup::sock_getpeername6,
            (Action::Bind, IpAddr::V4(_)) => cgroup::sock_bind4,
            (Action::Bind, IpAddr::V6(_)) => cgroup::sock_bind6,
        };
        let run = || program(&raw mut context);
        let (result, deeds) = world::run(Place::Call, answers, run);
        let remembered = tables::remembered(key);
        tables::forget_sockets();
        let error = deeds.iter().rev().find_map(|deed| match deed {
            Deed::Fail(error) => Some(*error),
            _ => None,
        });
        let port = u16::from_be(context.user_port as u16);
        let gone_to: IpAddr = match (asked, to) {
            (IpAddr::V4(_), SocketAddr::V4(_)) => IpAddr::from(context.user_ip4.to_ne_bytes()),
            (IpAddr::V4(_), SocketAddr::V6(_)) => {
                let [a, b, c, d] = context.user_ip4.to_ne_bytes();
                Ipv4Addr::new(a, b, c, d).to_ipv6_mapped().into()
            }
            (IpAddr::V6(_), _) => v6(context.user_ip6).into(),
        };
        CallOutcome {
            to: (result != 0).then_some(SocketAddr::new(gone_to, port)),
            error,
            remembered,
            deeds,
        }
    }
}
