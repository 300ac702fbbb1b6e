//! The load: a client and a server that do as little as they can, on one CPU.
//!
//! Both use blocking system calls, and the server is a process of its own. On two CPUs it would be the wake-up
//! of the other one that is measured; on one, what a packet costs on its way is all there is: the
//! device, the node's stack and everything that hooks into it run there too, in the sender's call.
//! (So it is with many bytes, whose rate is that of the CPU's work on them, not that of the slower
//! side of two.)

mod bulk;
mod client;
mod floor;
mod pin;
mod role;
mod server;
mod tcp;
mod times;
mod udp;
mod user_time;

use std::{
    io,
    net::{SocketAddrV4, TcpListener, UdpSocket},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use shunt_tests::Namespace;

pub(crate) use self::{
    bulk::UNIT as BULK_UNIT,
    client::{Client, ask_if_told},
    floor::{nothing, socket_pair},
    pin::{cpu, pin},
    role::play,
    server::serve_if_told,
    times::Times,
};

use self::server::Server;

/// Limit of every wait. Nothing is lost where nothing is wrong.
const PATIENCE: Duration = Duration::from_secs(5);

/// The length of a request and of its answer, in bytes.
const MESSAGE: usize = 64;

/// A kind of exchange between client and server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Exchange {
    /// A request and its answer, over one TCP connection.
    Request,
    /// A TCP connection each: connect, request, answer, close; the client closes first.
    Connection,
    /// The same, but the server closes right after its answer.
    ServerCloses,
    /// A request and its answer, over one UDP flow.
    Datagram,
    /// The same over a socket that is not connected: each request names its destination, each answer its
    /// source.
    SendTo,
    /// A UDP flow for each request: a source port that was not used before.
    NewFlow,
    /// As many bytes as go through a TCP connection: times are those of [`BULK_UNIT`].
    Bulk,
}

impl Exchange {
    /// The word for it in a study's name.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Connection => "connection",
            Self::ServerCloses => "server-closes",
            Self::Datagram => "datagram",
            Self::SendTo => "sendto",
            Self::NewFlow => "new-flow",
            Self::Bulk => "bulk",
        }
    }

    /// Returns the unit of a figure.
    pub(crate) const fn unit(self) -> &'static str {
        match self {
            Self::Request => "us a TCP request",
            Self::Connection => "us a TCP connection",
            Self::ServerCloses => "us a TCP connection that the server closes first",
            Self::Datagram => "us a UDP request",
            Self::SendTo => "us a UDP request over a socket that is not connected",
            Self::NewFlow => "us a UDP request of a new flow",
            Self::Bulk => "MB/s",
        }
    }

    /// Returns the number of exchanges in a turn of a study.
    pub(crate) const fn times(self) -> usize {
        match self {
            Self::Request | Self::Datagram | Self::SendTo => 500,
            Self::Connection | Self::ServerCloses | Self::NewFlow => 100,
            Self::Bulk => 10,
        }
    }

    /// Returns the number of exchanges before the `times` that count: the first ones find caches
    /// and neighbours cold, for every subject.
    const fn warm_up(self, times: usize) -> usize {
        match self {
            Self::Request | Self::Datagram | Self::SendTo | Self::Bulk => times / 10,
            Self::Connection | Self::ServerCloses | Self::NewFlow => times / 20,
        }
    }
}

/// The server's sockets, in the server's namespace.
#[derive(Debug)]
pub(crate) struct Served {
    /// The listener for connections.
    pub(crate) tcp: TcpListener,
    /// The socket for datagrams.
    pub(crate) udp: UdpSocket,
}

impl Served {
    /// Listens on this port of all addresses of a namespace.
    ///
    /// # Errors
    ///
    /// When the port cannot be bound.
    pub(crate) fn listen(namespace: &Namespace, port: u16) -> Result<Self> {
        Ok(namespace.enter(|| -> io::Result<Self> {
            Ok(Self {
                tcp: tcp::listen(port)?,
                udp: udp::serve_on(port)?,
            })
        })?)
    }
}

/// Source ports of a client's datagrams of new flows: each port once.
#[derive(Debug)]
pub(crate) struct SourcePorts(u16);

impl SourcePorts {
    const FIRST: u16 = 10_000;
    const LAST: u16 = 60_000;

    pub(crate) const fn new() -> Self {
        Self(Self::FIRST)
    }

    /// The next one.
    const fn take(&mut self) -> u16 {
        let port = self.0;
        self.0 = if port == Self::LAST {
            Self::FIRST
        } else {
            port + 1
        };
        port
    }
}

/// Result of the exchanges.
#[derive(Debug)]
pub(crate) struct Exchanged {
    /// Times that the client recorded.
    pub(crate) times: Times,
    /// Duration of all of it.
    pub(crate) took: Duration,
    /// The part of that which the client or the server spent in its own code.
    pub(crate) user: Duration,
}

/// Has a client in `client` do `exchange` with `target` `times` times, which `served` answers.
///
/// # Errors
///
/// When anything fails on either side, or nothing comes for a long time.
pub(crate) fn run(
    exchange: Exchange,
    times: usize,
    client: &Namespace,
    target: SocketAddrV4,
    served: &Served,
    ports: &mut SourcePorts,
) -> Result<Exchanged> {
    let warm_up = exchange.warm_up(times);
    let start = Instant::now();
    let server = Server::start(exchange, times + warm_up, served)?;
    let asked = client.enter(|| -> io::Result<_> {
        pin()?;
        let times = Times::with_room(warm_up, times);
        let times = match exchange {
            Exchange::NewFlow => udp::new_flows(target, ports, times)?,
            _ => ask(exchange, target, times)?,
        };
        Ok((times, user_time::user_time()?))
    });
    let answered = server.end();
    let took = start.elapsed();
    let (times, asking) = asked.with_context(|| format!("the client of {target} in {client:?}"))?;
    let answering =
        answered.with_context(|| format!("the server that {client:?} knows as {target}"))?;
    Ok(Exchanged {
        times,
        took,
        user: asking + answering,
    })
}

/// Does `exchange` with `target`, but for [`Exchange::NewFlow`], whose source ports are to be known.
fn ask(exchange: Exchange, target: SocketAddrV4, times: Times) -> io::Result<Times> {
    match exchange {
        Exchange::Request => tcp::requests(target, times),
        Exchange::Connection => tcp::connections(target, tcp::Closes::Client, times),
        Exchange::ServerCloses => tcp::connections(target, tcp::Closes::Server, times),
        Exchange::Datagram => udp::requests(target, times),
        Exchange::SendTo => udp::unconnected(target, times),
        Exchange::Bulk => bulk::send(target, times),
        Exchange::NewFlow => Err(io::ErrorKind::Unsupported.into()),
    }
}
