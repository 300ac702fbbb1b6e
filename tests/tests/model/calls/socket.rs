//! Sockets, and the system calls on them.

use std::{
    io,
    net::{SocketAddr, SocketAddrV6, UdpSocket},
    os::fd::{AsRawFd, RawFd},
};

use libc::{SO_PEERNAME, SOL_SOCKET, sockaddr_in, sockaddr_in6, socklen_t};
use nix::errno::Errno;
use rustix::net::connect_unspec;
use socket2::{Domain, SockAddr, Socket, Type};

use super::operations::Kind;

/// A socket that does not wait.
pub(crate) struct Open {
    socket: Socket,
    /// The same, if it is of UDP.
    datagrams: Option<UdpSocket>,
    pub kind: Kind,
}

impl Open {
    /// One of this kind, in the namespace of this thread.
    pub(crate) fn new(kind: Kind) -> Self {
        let Kind {
            is_ipv6, is_tcp, ..
        } = kind;
        let domain = if is_ipv6 { Domain::IPV6 } else { Domain::IPV4 };
        let form = if is_tcp { Type::STREAM } else { Type::DGRAM };
        let socket = Socket::new(domain, form.nonblocking(), None).unwrap();
        // The kernel itself refuses no port.
        socket.set_reuse_address(true).unwrap();
        socket.set_reuse_port(true).unwrap();
        let datagrams = (!is_tcp).then(|| socket.try_clone().unwrap().into());
        Self {
            socket,
            datagrams,
            kind,
        }
    }

    /// The IANA number of its protocol.
    pub(crate) const fn protocol(&self) -> u8 {
        if self.kind.is_tcp { 6 } else { 17 }
    }

    /// The address and the port that it is bound to.
    pub(crate) fn bound(&self) -> SocketAddr {
        let bound = self.socket.local_addr().unwrap();
        bound.as_socket().unwrap()
    }

    pub(crate) fn bind(&self, to: SocketAddr) -> io::Result<()> {
        self.socket.bind(&to.into())
    }

    /// Connects, or begins to.
    pub(crate) fn connect(&self, to: SocketAddr) -> io::Result<()> {
        match self.socket.connect(&to.into()) {
            Err(error) if error.raw_os_error() == Some(Errno::EINPROGRESS as i32) => Ok(()),
            result => result,
        }
    }

    /// Has it have no peer any more.
    pub(crate) fn disconnect(&self) {
        connect_unspec(&self.socket).unwrap();
    }

    /// Sends a datagram to this address.
    pub(crate) fn send_to(&self, to: SocketAddr) -> io::Result<()> {
        self.without_answer(self.socket.send_to(b"?", &to.into()))
    }

    /// Sends a datagram to the peer.
    pub(crate) fn send(&self) -> io::Result<()> {
        self.without_answer(self.socket.send(b"?"))
    }

    /// Forgets what came back at once: it is none of the next call's business.
    fn without_answer(&self, sent: io::Result<usize>) -> io::Result<()> {
        drop(self.socket.take_error());
        sent.map(drop)
    }

    /// Receives a datagram, if one is there: its sender, as the process sees it, and its text.
    pub(crate) fn receive(&self) -> Option<(SocketAddr, String)> {
        let mut buffer = [0; 128];
        let datagrams = self.datagrams.as_ref().unwrap();
        match datagrams.recv_from(&mut buffer) {
            Ok((length, from)) => {
                let said = String::from_utf8_lossy(&buffer[..length]).into_owned();
                Some((plain(from), said))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(error) => panic!("nothing is received: {error}"),
        }
    }

    /// Returns the peer, as the process sees it: as `getpeername(2)` has it, which refuses that of
    /// a connection that is not made yet.
    pub(crate) fn peer_name(&self) -> io::Result<SocketAddr> {
        // SAFETY: the kernel writes an address there, of the length that it returns, or nothing.
        let ((), address) = unsafe {
            SockAddr::try_init(|storage, length| {
                let (level, option) = (SOL_SOCKET, SO_PEERNAME);
                // The kernel takes no room for more than it has.
                *length = if self.kind.is_ipv6 {
                    size_of::<sockaddr_in6>()
                } else {
                    size_of::<sockaddr_in>()
                } as socklen_t;
                let fd = self.as_raw_fd();
                match libc::getsockopt(fd, level, option, storage.cast(), length) {
                    0 => Ok(()),
                    _ => Err(io::Error::last_os_error()),
                }
            })?
        };
        Ok(plain(address.as_socket().unwrap()))
    }
}

/// The address without what is of no link.
fn plain(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(_) => address,
        SocketAddr::V6(v6) => SocketAddrV6::new(*v6.ip(), v6.port(), 0, 0).into(),
    }
}

impl AsRawFd for Open {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}
