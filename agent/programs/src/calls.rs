//! System calls of processes on sockets.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use aya_ebpf::{
    bindings::{bpf_sock, bpf_sock_addr},
    world::{self, Answers, Deed, Place},
};

use crate::{
    hooks::cgroup,
    programs::Programs,
    tables::forget_sockets,
    way::{v6, words},
};

/// What a process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// `connect(2)`.
    Connect,
    /// `sendto(2)` on a socket that is not connected.
    Send,
}

/// A system call on a socket that has asked nothing before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// What the process does.
    pub action: Action,
    /// The IANA number of the socket's protocol.
    pub protocol: u8,
    /// The address that the socket is bound to, unspecified if it is to none.
    pub bound: IpAddr,
    /// The address that the process gives. The socket is of its family.
    pub to: SocketAddr,
}

/// What became of a system call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallOutcome {
    /// The address that it goes on with; `None` if it fails.
    pub to: Option<SocketAddr>,
    /// The error that it fails with, a negative number, if the program says which: else it is `EPERM`.
    pub error: Option<i32>,
    /// What the program did on its way, in its order.
    pub deeds: Vec<Deed>,
}

impl Programs {
    /// What the program at a system call does.
    pub fn call(&mut self, call: &Call, answers: Box<dyn Answers>) -> CallOutcome {
        let Call {
            action,
            protocol,
            bound,
            to,
        } = *call;
        // SAFETY: words and unions of them.
        let mut socket: bpf_sock = unsafe { core::mem::zeroed() };
        match bound {
            IpAddr::V4(address) => socket.src_ip4 = u32::from_ne_bytes(address.octets()),
            IpAddr::V6(address) => socket.src_ip6 = words(address),
        }
        // SAFETY: words, and a pointer that is set next.
        let mut context: bpf_sock_addr = unsafe { core::mem::zeroed() };
        context.__bindgen_anon_1.sk = &raw mut socket;
        context.protocol = protocol.into();
        context.user_port = to.port().to_be().into();
        match to.ip() {
            IpAddr::V4(address) => context.user_ip4 = u32::from_ne_bytes(address.octets()),
            IpAddr::V6(address) => context.user_ip6 = words(address),
        }
        let program: fn(*mut bpf_sock_addr) -> i32 = match (action, to) {
            (Action::Connect, SocketAddr::V4(_)) => cgroup::sock_connect4,
            (Action::Connect, SocketAddr::V6(_)) => cgroup::sock_connect6,
            (Action::Send, SocketAddr::V4(_)) => cgroup::sock_sendmsg4,
            (Action::Send, SocketAddr::V6(_)) => cgroup::sock_sendmsg6,
        };
        let run = || program(&raw mut context);
        let (result, deeds) = world::run(Place::Call, answers, run);
        // The socket's address names it in the tables, and is another one's soon.
        forget_sockets();
        let error = deeds.iter().rev().find_map(|deed| match deed {
            Deed::Fail(error) => Some(*error),
            _ => None,
        });
        let port = u16::from_be(context.user_port as u16);
        let gone_to = match to {
            SocketAddr::V4(_) => {
                SocketAddr::new(IpAddr::from(context.user_ip4.to_ne_bytes()), port)
            }
            SocketAddr::V6(_) => SocketAddrV6::new(v6(context.user_ip6), port, 0, 0).into(),
        };
        CallOutcome {
            to: (result != 0).then_some(gone_to),
            error,
            deeds,
        }
    }
}
