//! The load: a client and a server that do as little as they can, on one CPU.
//!
//! Both use blocking system calls, and the server is a process of its own. On two CPUs it would be the wake-up
//! of the other one that is measured; on one, what a packet costs on its way is all there is: the
//! device, the node's stack and everything that hooks into it run there too, in the sender's call.
//! (So it is with many bytes, whose rate is that of the CPU's work on them, not that of the slower
//! side of two.)

mod bulk;
mod floor;
mod pin;
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

pub(crate) use self::server::serve_if_asked;
pub(super) use self::{
    bulk::UNIT as BULK_UNIT,
    floor::{nothing, socket_pair},
    pin::{cpu, pin},
    times::Times,
};

use self::server::Server;

/// How long anybody waits for anything. Nothing is lost where nothing is wrong.
const PATIENCE: Duration = Duration::from_secs(5);

/// The length of a request and of its answer, in bytes.
const MESSAGE: usize = 64;

/// What client and server do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Exchange {
    /// A request and its answer, over one TCP connection.
    Request,
    /// A TCP connection each: connect, request, answer, close; the client closes first.
    Connection,
    /// The same, but the server closes right after its answer.
    ServerCloses,
    /// A request and its answer, over one UDP flow.
    Datagram,
    /// A UDP flow for each request: a source port that was not used before.
    NewFlow,
    /// As many bytes as go through a TCP connection: times are those of [`BULK_UNIT`].
    Bulk,
}

/// The server's sockets, in the server's namespace.
#[derive(Debug)]
pub(super) struct Served {
    /// Where connections come in.
    pub(super) tcp: TcpListener,
    /// Where datagrams come in.
    pub(super) udp: UdpSocket,
}

impl Served {
    /// Listens on this port of all addresses of a namespace.
    ///
    /// # Errors
    ///
    /// When the port cannot be bound.
    pub(super) fn listen(namespace: &Namespace, port: u16) -> Result<Self> {
        Ok(namespace.enter(|| -> io::Result<Self> {
            Ok(Self {
                tcp: tcp::listen(port)?,
                udp: udp::serve_on(port)?,
            })
        })?)
    }
}

/// Where a client's datagrams of new flows come from: each port once.
#[derive(Debug)]
pub(super) struct SourcePorts(u16);

impl SourcePorts {
    const FIRST: u16 = 10_000;
    const LAST: u16 = 60_000;

    pub(super) const fn new() -> Self {
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

/// What came of an exchange.
#[derive(Debug)]
pub(super) struct Exchanged {
    /// What the client took down.
    pub(super) times: Times,
    /// How long all of it took.
    pub(super) took: Duration,
    /// How long of that the client or the server was in its own code.
    pub(super) user: Duration,
}

/// Has a client in `client` do `exchange` with `target` `times` times, which `served` answers.
///
/// # Errors
///
/// When anything fails on either side, or nothing comes for a long time.
pub(super) fn run(
    exchange: Exchange,
    times: usize,
    client: &Namespace,
    target: SocketAddrV4,
    served: &Served,
    ports: &mut SourcePorts,
) -> Result<Exchanged> {
    // What comes first finds caches and neighbours cold, whoever is measured.
    let warm_up = match exchange {
        Exchange::Request | Exchange::Datagram | Exchange::Bulk => times / 10,
        Exchange::Connection | Exchange::ServerCloses | Exchange::NewFlow => times / 20,
    };
    let ask = |ports: &mut SourcePorts, times: Times| match exchange {
        Exchange::Request => tcp::requests(target, times),
        Exchange::Connection => tcp::connections(target, tcp::Closes::Client, times),
        Exchange::ServerCloses => tcp::connections(target, tcp::Closes::Server, times),
        Exchange::Datagram => udp::requests(target, times),
        Exchange::NewFlow => udp::new_flows(target, ports, times),
        Exchange::Bulk => bulk::send(target, times),
    };
    let start = Instant::now();
    let server = Server::start(exchange, times + warm_up, served)?;
    let asked = client.enter(|| -> io::Result<_> {
        pin()?;
        let times = ask(ports, Times::with_room(warm_up, times))?;
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
