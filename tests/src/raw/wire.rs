//! A raw socket: its owner may send from any address.

use std::{
    io,
    net::{IpAddr, SocketAddr},
};

use socket2::{Domain, Protocol, Socket, Type};

use super::packet::Packet;

/// `IPPROTO_RAW`: packets bring their own IP headers, and none is received (raw(7)).
const RAW: i32 = 255;

/// A socket to send packets by, in the namespace in which it was made.
#[derive(Debug)]
pub struct Wire {
    socket: Socket,
    buffer: Vec<u8>,
}

impl Wire {
    /// Makes one in the current thread's namespace, for packets of the family of this address.
    ///
    /// # Errors
    ///
    /// Without root.
    pub fn open(family: IpAddr) -> io::Result<Self> {
        let domain = match family {
            IpAddr::V4(_) => Domain::IPV4,
            IpAddr::V6(_) => Domain::IPV6,
        };
        Ok(Self {
            socket: Socket::new(domain, Type::RAW, Some(Protocol::from(RAW)))?,
            buffer: Vec::with_capacity(128),
        })
    }

    /// Sends a packet by this namespace's routes.
    ///
    /// # Errors
    ///
    /// When there is no way, or no room on it.
    pub fn send(&mut self, packet: &Packet) -> io::Result<()> {
        packet.write(&mut self.buffer);
        self.send_bytes(&self.buffer, packet.to.ip())
    }

    /// Sends a packet that was made elsewhere, to this address.
    ///
    /// # Errors
    ///
    /// As [`Self::send`].
    pub fn send_bytes(&self, packet: &[u8], to: IpAddr) -> io::Result<()> {
        // A raw socket's port is the protocol, or 0.
        let to = SocketAddr::new(to, 0);
        self.socket.send_to(packet, &to.into()).map(drop)
    }
}
