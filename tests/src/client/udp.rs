//! A client's UDP socket.

use std::{
    net::{SocketAddr, UdpSocket},
    time::Instant,
};

use socket2::Type;

use super::{Answer, Failure, Target};
use crate::{
    patience::patience,
    payload::{Checksum, chunks},
    protocol::Reply,
};

/// A reply is one line.
const LONGEST_REPLY: usize = 512;

/// A connected socket: the kernel delivers only what comes from the target's own address and port.
#[derive(Debug)]
pub struct Flow {
    socket: UdpSocket,
    client: SocketAddr,
}

impl Flow {
    pub(super) fn open(target: &Target) -> Result<Self, Failure> {
        let socket = target.socket(Type::DGRAM)?;
        socket.connect(&target.address.into())?;
        let socket = UdpSocket::from(socket);
        socket.set_read_timeout(Some(patience(target.patience)))?;
        let client = socket.local_addr()?;
        Ok(Self { socket, client })
    }

    /// The client's own address and port.
    pub const fn client(&self) -> SocketAddr {
        self.client
    }

    /// The other end, by the client's own socket.
    ///
    /// # Errors
    ///
    /// When the socket is no longer connected.
    pub fn peer(&self) -> Result<SocketAddr, Failure> {
        Ok(self.socket.peer_addr()?)
    }

    /// Sends a datagram of `length` bytes; the server's checksum of it must be right.
    ///
    /// # Errors
    ///
    /// When no answer comes, or a wrong one.
    pub fn ask(&self, length: usize) -> Result<Answer, Failure> {
        let since = Instant::now();
        let sent = chunks(length as u64).collect::<Vec<_>>().concat();
        self.socket.send(&sent)?;
        let mut buffer = [0; LONGEST_REPLY];
        let size = self.socket.recv(&mut buffer)?;
        let line = String::from_utf8_lossy(&buffer[..size]);
        let wrong = || Failure::Wrong(line.trim_end().to_owned());
        let reply: Reply = line.parse().map_err(|()| wrong())?;
        let mut checksum = Checksum::default();
        checksum.add(&sent);
        if (reply.length, reply.checksum) != (length as u64, checksum.value()) {
            return Err(wrong());
        }
        Ok(Answer::new(reply, self.client, length as u64, since))
    }
}
