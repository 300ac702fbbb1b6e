//! A netlink socket through which the kernel is asked for sockets, and to destroy them.

use std::{
    io,
    os::fd::{AsRawFd as _, BorrowedFd, OwnedFd},
    thread,
};

use nix::{
    errno::Errno,
    sys::{
        socket::{
            AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, setsockopt,
            socket, sockopt::ReceiveTimeout,
        },
        time::TimeVal,
    },
};

use crate::sweep::message::{
    Answer, Kind, Socket, SocketId, answers, destroy_request, dump_request,
};

/// The kernel sends at most 32 KiB at once, unless one socket needs more: one that is listed with its
/// storage needs some hundred bytes.
const RECEIVED: usize = 1 << 16;

/// The kernel has the answer ready before the request returns, or makes it while it is received.
const PATIENCE: TimeVal = TimeVal::new(5, 0);

/// Number of sockets that are destroyed by one request: the answers to all have room in the receive
/// buffer as it is by default.
pub(crate) const BATCH: usize = 64;

/// A socket of `NETLINK_SOCK_DIAG`. It lists the sockets in the network namespace in which it
/// was made.
#[derive(Debug)]
pub(crate) struct SockDiag {
    socket: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl SockDiag {
    /// Opens one in the network namespace of the calling thread.
    pub(crate) fn open() -> io::Result<Self> {
        let socket = socket(
            AddressFamily::Netlink,
            SockType::Datagram,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkSockDiag,
        )?;
        setsockopt(&socket, ReceiveTimeout, &PATIENCE)?;
        Ok(Self {
            socket,
            sequence: 0,
            buffer: vec![0; RECEIVED],
        })
    }

    /// Passes each socket of a kind that is in one of `states` to `found`, one of TCP with its values
    /// in `tables`. A socket that appears or goes meanwhile, or whose neighbour in the kernel's table
    /// does, may be left out.
    pub(crate) fn dump(
        &mut self,
        kind: Kind,
        states: u32,
        tables: &[BorrowedFd<'_>],
        mut found: impl FnMut(Socket),
    ) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        self.send(&dump_request(kind, states, tables, self.sequence))?;
        loop {
            for answer in answers(self.receive()?) {
                match answer.map_err(io::Error::other)? {
                    Answer::Socket(socket) => found(socket),
                    Answer::Done(outcome) | Answer::Outcome(_, outcome) => return Ok(outcome?),
                    Answer::Other => {}
                }
            }
        }
    }

    /// Destroys sockets of a kind, at most [`BATCH`], and gives to `done` what became of each.
    pub(crate) fn destroy(
        &mut self,
        kind: Kind,
        sockets: &[SocketId],
        mut done: impl FnMut(Result<(), Errno>),
    ) -> io::Result<()> {
        if sockets.is_empty() {
            // The kernel takes no empty message.
            return Ok(());
        }
        let first = self.sequence.wrapping_add(1);
        let mut requests = Vec::new();
        for id in sockets {
            self.sequence = self.sequence.wrapping_add(1);
            requests.extend(destroy_request(kind, *id, self.sequence));
        }
        self.send(&requests)?;
        let mut left = sockets.len();
        while left > 0 {
            for answer in answers(self.receive()?) {
                if let Answer::Outcome(sequence, outcome) = answer.map_err(io::Error::other)?
                    && (sequence.wrapping_sub(first) as usize) < sockets.len()
                {
                    done(outcome);
                    left = left.saturating_sub(1);
                }
            }
        }
        Ok(())
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        send(self.socket.as_raw_fd(), bytes, MsgFlags::empty())?;
        Ok(())
    }

    fn receive(&mut self) -> io::Result<&[u8]> {
        let Self { socket, buffer, .. } = self;
        // Each answer is the work of some hundred sockets. A thread with an event comes first.
        thread::yield_now();
        let received = recv(socket.as_raw_fd(), buffer, MsgFlags::MSG_TRUNC)?;
        buffer
            .get(..received)
            .ok_or_else(|| io::Error::other("the kernel's answer is longer than any was"))
    }
}
