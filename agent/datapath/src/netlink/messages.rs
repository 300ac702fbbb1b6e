//! The kernel's messages of changes, for a thread that lists what has changed.

use std::{
    io::{self, ErrorKind},
    thread,
    time::{Duration, Instant},
};

use nix::sys::{
    socket::{setsockopt, sockopt::ReceiveTimeout},
    time::{TimeVal, TimeValLike as _},
};
use rtnetlink::{
    MulticastGroup,
    sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE},
};
use tracing::warn;

/// The most bytes of a message that are read. Some are longer, but begin with what is read.
const BEGIN: usize = 4096;

/// The time after a failure until another socket is opened.
const AGAIN: Duration = Duration::from_secs(1);

/// A socket with the kernel's messages on some subjects.
#[derive(Debug)]
pub(crate) struct Messages {
    socket: Socket,
    groups: &'static [MulticastGroup],
    begin: Vec<u8>,
}

/// Result of noting a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Noted {
    /// Something is to be listed.
    Stale,
    /// Nothing is.
    Nothing,
}

/// Messages that have come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gathered {
    /// All of them have been noted.
    Noted,
    /// They are not known: some were lost.
    Anything,
}

impl Messages {
    /// Opens a socket, in the calling thread's network namespace.
    ///
    /// # Errors
    ///
    /// If the kernel opens none.
    pub(crate) fn open(groups: &'static [MulticastGroup]) -> io::Result<Self> {
        Ok(Self {
            socket: open(groups)?,
            groups,
            begin: Vec::with_capacity(BEGIN),
        })
    }

    /// Waits until `note` finds by a message's first bytes, with its header, that something is stale, or until
    /// `end`; then takes the messages that are there. A socket that fails is replaced.
    pub(crate) fn gather(
        &mut self,
        end: Instant,
        note: &mut impl FnMut(&[u8]) -> Noted,
    ) -> Gathered {
        let mut gathered = Gathered::Noted;
        let mut is_stale = false;
        loop {
            // Once something has come, only what is there already.
            let limit = if is_stale {
                Duration::ZERO
            } else {
                end.saturating_duration_since(Instant::now())
            };
            match self.receive(limit) {
                Ok(_) => is_stale |= note(&self.begin) == Noted::Stale,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if is_stale || Instant::now() >= end {
                        return gathered;
                    }
                }
                // Messages were lost. The next call returns those that are there.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    (gathered, is_stale) = (Gathered::Anything, true);
                }
                Err(error) => {
                    warn!(%error, "a netlink socket has failed: another one is opened, and all is read again");
                    self.reopen();
                    return Gathered::Anything;
                }
            }
        }
    }

    /// Receives the begin of a message, which is waited for so long.
    fn receive(&mut self, limit: Duration) -> io::Result<usize> {
        self.begin.clear();
        if limit.is_zero() {
            return self.socket.recv(&mut self.begin, libc::MSG_DONTWAIT);
        }
        // No time at all would be for ever.
        let limit = TimeVal::microseconds(limit.as_micros().max(1) as i64);
        setsockopt(&self.socket, ReceiveTimeout, &limit)?;
        self.socket.recv(&mut self.begin, 0)
    }

    fn reopen(&mut self) {
        thread::sleep(AGAIN);
        match open(self.groups) {
            Ok(socket) => self.socket = socket,
            Err(error) => warn!(%error, "no netlink socket can be opened"),
        }
    }
}

/// Returns the index of the interface that a message with its header is about: `ifi_index` of `struct ifinfomsg`, or
/// `tcm_ifindex` of `struct tcmsg` (linux/rtnetlink.h).
pub(crate) fn interface_of(message: &[u8]) -> Option<u32> {
    let bytes = message.get(20..24)?.try_into().ok()?;
    Some(u32::from_ne_bytes(bytes))
}

/// Returns the type of a message: that of its `struct nlmsghdr` (linux/netlink.h).
pub(crate) fn kind(message: &[u8]) -> Option<u16> {
    let bytes = message.get(4..6)?.try_into().ok()?;
    Some(u16::from_ne_bytes(bytes))
}

fn open(groups: &[MulticastGroup]) -> io::Result<Socket> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind(&SocketAddr::new(0, 0))?;
    for group in groups {
        socket.add_membership(*group as u32)?;
    }
    Ok(socket)
}
