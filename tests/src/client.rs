//! A client: one address to talk to, and what came back.

mod tcp;
mod udp;

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use socket2::{Domain, Socket, Type};

pub use self::{
    tcp::{Connection, HalfClosed},
    udp::Flow,
};
use crate::{protocol::Reply, tally::Tally};

/// Time that a client waits for a connection or an answer, unless it has another limit. Long enough
/// for a lost SYN to be sent again, so that a lost packet is not mistaken for a wrong translation.
const PATIENCE: Duration = Duration::from_secs(4);

/// Number of failures that are enough to see that something is wrong.
const ENOUGH_FAILURES: u64 = 3;

/// The transport protocol of a frontend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
        })
    }
}

/// A client's target, and its transport.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    address: SocketAddr,
    transport: Transport,
    patience: Duration,
    source_port: Option<u16>,
}

impl Target {
    /// A client of `address`, from a port that the kernel chooses.
    pub const fn new(transport: Transport, address: SocketAddr) -> Self {
        Self {
            address,
            transport,
            patience: PATIENCE,
            source_port: None,
        }
    }

    /// A TCP client.
    pub const fn tcp(address: SocketAddr) -> Self {
        Self::new(Transport::Tcp, address)
    }

    /// A UDP client.
    pub const fn udp(address: SocketAddr) -> Self {
        Self::new(Transport::Udp, address)
    }

    /// Returns the address that it connects to.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// A client of the same port of another address.
    #[must_use]
    pub const fn to(mut self, ip: IpAddr) -> Self {
        self.address = SocketAddr::new(ip, self.address.port());
        self
    }

    /// Waits at most so long for a connection and for each answer.
    #[must_use]
    pub const fn within(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Connects from this port.
    #[must_use]
    pub const fn from_port(mut self, port: u16) -> Self {
        self.source_port = Some(port);
        self
    }

    /// Opens a TCP connection from the current thread's namespace.
    ///
    /// # Errors
    ///
    /// When it cannot be opened.
    pub fn connect(&self) -> Result<Connection, Failure> {
        Connection::open(self)
    }

    /// Makes a UDP socket, in the current thread's namespace, that talks to the target only.
    ///
    /// # Errors
    ///
    /// When it cannot be made.
    pub fn flow(&self) -> Result<Flow, Failure> {
        Flow::open(self)
    }

    /// One new connection (over UDP: one new socket) with one request of `length` bytes, closed
    /// when it is answered.
    ///
    /// # Errors
    ///
    /// When there is no answer, or a wrong one.
    pub fn ask(&self, length: usize) -> Result<Answer, Failure> {
        match self.transport {
            Transport::Tcp => self.connect()?.echo(length),
            Transport::Udp => self.flow()?.ask(length),
        }
    }

    /// [`Target::ask`], `times` over, one after the other. After a few failures it gives up: they
    /// are in the tally, and a client that goes on would wait its patience for each.
    pub fn ask_times(&self, times: u32, length: usize) -> Tally {
        let mut tally = Tally::default();
        for _ in 0..times {
            tally.add(&self.ask(length));
            if tally.failed() == ENOUGH_FAILURES {
                break;
            }
        }
        tally
    }

    /// A socket with the chosen source port, not yet connected.
    fn socket(&self, kind: Type) -> io::Result<Socket> {
        let socket = Socket::new(Domain::for_address(self.address), kind, None)?;
        if let Some(port) = self.source_port {
            let any: IpAddr = match self.address {
                SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
                SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
            };
            socket.set_reuse_address(true)?;
            socket.bind(&SocketAddr::new(any, port).into())?;
        }
        Ok(socket)
    }
}

/// A backend's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The name of the pod that answered.
    pub name: String,
    /// The address that it answered from, by its own socket.
    pub backend: SocketAddr,
    /// The address that it saw the client at.
    pub peer: SocketAddr,
    /// The client's address, by the client's own socket.
    pub client: SocketAddr,
    /// Number of bytes carried, both ways, without the lines of the protocol.
    pub bytes: u64,
    /// The time from before the request to after the answer; for a connection's first one,
    /// from before the connection was opened.
    pub latency: Duration,
}

impl Answer {
    fn new(reply: Reply, client: SocketAddr, bytes: u64, since: Instant) -> Self {
        let Reply {
            name,
            backend,
            peer,
            length: _,
            checksum: _,
        } = reply;
        Self {
            name,
            backend,
            peer,
            client,
            bytes,
            latency: since.elapsed(),
        }
    }

    /// Returns whether the backend saw the client's own address and port.
    pub fn source_kept(&self) -> bool {
        self.peer == self.client
    }
}

/// Reason for the lack of a right answer.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A TCP reset in reply to the SYN, or an ICMP port unreachable.
    #[error("connection refused")]
    Refused,
    /// There is no route, here or at a router that reports it.
    #[error("network or host unreachable")]
    Unreachable,
    /// Nothing came in time.
    #[error("timed out")]
    TimedOut,
    /// An open connection was reset.
    #[error("connection reset")]
    Reset,
    /// An open connection ended too early.
    #[error("connection closed early")]
    Closed,
    /// Something came that is not the answer to the request.
    #[error("wrong answer: {0}")]
    Wrong(String),
    /// Anything else.
    #[error("{0}")]
    Other(#[source] io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Self::Refused,
            io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable => Self::Unreachable,
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => Self::TimedOut,
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Self::Reset,
            io::ErrorKind::UnexpectedEof => Self::Closed,
            _ => Self::Other(error),
        }
    }
}
