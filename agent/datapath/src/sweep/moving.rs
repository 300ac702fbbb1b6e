//! UDP sockets of processes that are connected anew, so that they reach a backend.
//!
//! The agent duplicates a socket of another process and connects it to its frontend. The program at `connect` runs for the
//! socket, by its cgroup and its namespace, for any caller: it selects a backend as for the process itself. A connected
//! socket keeps its local address and port (`__ip4_datagram_connect` of net/ipv4/datagram.c), and what it has received.

use std::{
    collections::{HashMap, HashSet},
    io,
    net::{SocketAddr, UdpSocket},
    os::fd::AsFd as _,
};

use thiserror::Error;

use crate::{
    sweep::{
        holders::holders,
        message::{Kind, SocketId},
    },
    sys::process_socket::{Descriptor, cookie, duplicate},
};

/// A connected UDP socket that reaches no backend of its frontend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lost {
    pub(crate) kind: Kind,
    pub(crate) id: SocketId,
    pub(crate) inode: u32,
    /// The address that its process connected it to. An IPv4 address of an IPv6 socket is not mapped.
    pub(crate) frontend: SocketAddr,
}

impl Lost {
    /// Returns the number that no other socket of the machine ever had.
    pub(crate) const fn cookie(&self) -> u64 {
        self.id.cookie()
    }
}

/// The result of moving a socket.
#[derive(Debug)]
pub(crate) enum Fate {
    /// It is connected anew.
    Moved,
    /// It was closed, or its process has connected it elsewhere meanwhile.
    Left,
    /// The frontend has no backend for it, so the program refuses the connection.
    Refused,
    /// It cannot be moved.
    Stuck(Stuck),
}

/// The reason why a socket cannot be moved.
#[derive(Debug, Error)]
pub(crate) enum Stuck {
    /// No descriptor of it was found.
    #[error(
        "no process is found that holds it, which takes CAP_SYS_PTRACE and, in a container, hostPID"
    )]
    Unheld,
    /// The kernel does not duplicate it.
    #[error("pidfd_getfd, which takes Linux 5.6 and CAP_SYS_PTRACE: {0}")]
    NotTaken(io::Error),
    /// The kernel does not connect it.
    #[error("connect: {0}")]
    NotConnected(io::Error),
}

/// Connects each socket to its frontend. Returns what became of each, in order.
pub(crate) fn connect_anew(lost: &[Lost]) -> Vec<Fate> {
    if lost.is_empty() {
        return Vec::new();
    }
    let inodes: HashSet<u32> = lost.iter().map(|lost| lost.inode).collect();
    // Without a list of processes, no socket has a holder.
    let holders: HashMap<u32, Descriptor> = holders(&inodes).unwrap_or_default();
    lost.iter()
        .map(|lost| match holders.get(&lost.inode) {
            Some(holder) => connect_one(lost, *holder).unwrap_or_else(Fate::Stuck),
            None => Fate::Stuck(Stuck::Unheld),
        })
        .collect()
}

fn connect_one(lost: &Lost, holder: Descriptor) -> Result<Fate, Stuck> {
    let socket = match duplicate(holder) {
        Ok(socket) => socket,
        Err(error) if matches!(error.raw_os_error(), Some(libc::ESRCH | libc::EBADF)) => {
            return Ok(Fate::Left);
        }
        Err(error) => return Err(Stuck::NotTaken(error)),
    };
    // Descriptors are used again.
    if !cookie(socket.as_fd()).is_ok_and(|cookie| cookie == lost.cookie()) {
        return Ok(Fate::Left);
    }
    let socket = UdpSocket::from(socket);
    // Of a socket that has a pair, the program at `getpeername` returns the frontend. Of one that its process has connected
    // to the backend itself, it does not.
    let is_there = |peer: SocketAddr| unmapped(peer) == lost.frontend;
    if !socket.peer_addr().is_ok_and(is_there) {
        return Ok(Fate::Left);
    }
    match socket.connect(of_family(lost.frontend, lost.kind)) {
        Ok(()) => Ok(Fate::Moved),
        Err(error) => match error.raw_os_error() {
            Some(libc::ECONNREFUSED | libc::EPERM) => Ok(Fate::Refused),
            _ => Err(Stuck::NotConnected(error)),
        },
    }
}

/// Returns the address with an IPv4 address that is not mapped, and without what only its socket has.
fn unmapped(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Returns the address as a socket of this kind takes it.
fn of_family(address: SocketAddr, kind: Kind) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) if i32::from(kind.family) == libc::AF_INET6 => {
            SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port())
        }
        _ => address,
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::{fd::AsRawFd as _, unix::fs::MetadataExt as _},
    };

    use bytemuck::Zeroable as _;

    use super::*;
    use crate::sweep::message::kinds;

    #[test]
    fn an_ipv6_socket_takes_mapped_addresses() {
        let [v4, v6] = kinds(libc::IPPROTO_UDP);
        let parse = |text: &str| text.parse::<SocketAddr>().unwrap();
        for (address, kind, taken) in [
            ("10.96.0.10:53", v4, "10.96.0.10:53"),
            ("10.96.0.10:53", v6, "[::ffff:10.96.0.10]:53"),
            ("[fd00::10]:53", v6, "[fd00::10]:53"),
        ] {
            let taken = parse(taken);
            assert_eq!(of_family(parse(address), kind), taken);
            assert_eq!(unmapped(taken), parse(address));
        }
    }

    /// A socket of this process, which is connected to `peer`, as one that is to be connected to `frontend`.
    fn own(peer: &str, frontend: &str) -> (UdpSocket, Lost) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(peer).unwrap();
        let cookie = cookie(socket.as_fd()).unwrap();
        let mut id = SocketId::zeroed();
        id.cookie = [cookie as u32, (cookie >> 32) as u32];
        let link = format!("/proc/self/fd/{}", socket.as_raw_fd());
        let lost = Lost {
            kind: kinds(libc::IPPROTO_UDP)[0],
            id,
            inode: fs::metadata(link).unwrap().ino() as u32,
            frontend: frontend.parse().unwrap(),
        };
        (socket, lost)
    }

    #[test]
    fn a_socket_is_connected_anew_and_keeps_its_port() {
        let (socket, lost) = own("127.0.0.1:53", "127.0.0.1:53");
        let before = socket.local_addr().unwrap();
        let fates = connect_anew(&[lost]);
        assert!(matches!(fates[..], [Fate::Moved]), "{fates:?}");
        assert_eq!(socket.local_addr().unwrap(), before);
    }

    #[test]
    fn a_socket_that_its_process_has_connected_elsewhere_is_left() {
        let (socket, lost) = own("127.0.0.1:54", "127.0.0.1:53");
        let fates = connect_anew(&[lost]);
        assert!(matches!(fates[..], [Fate::Left]), "{fates:?}");
        assert_eq!(socket.peer_addr().unwrap().port(), 54);
    }

    #[test]
    fn another_socket_with_the_descriptor_is_left() {
        let (_socket, mut lost) = own("127.0.0.1:53", "127.0.0.1:53");
        lost.id.cookie[0] ^= 1;
        let fates = connect_anew(&[lost]);
        assert!(matches!(fates[..], [Fate::Left]), "{fates:?}");
    }

    #[test]
    fn a_socket_that_nobody_holds_is_stuck() {
        let lost = Lost {
            kind: kinds(libc::IPPROTO_UDP)[0],
            id: SocketId::zeroed(),
            inode: u32::MAX,
            frontend: SocketAddr::from(([10, 96, 0, 10], 53)),
        };
        let fates = connect_anew(&[lost]);
        assert!(
            matches!(fates[..], [Fate::Stuck(Stuck::Unheld)]),
            "{fates:?}"
        );
    }
}
