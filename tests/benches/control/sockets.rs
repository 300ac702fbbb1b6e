//! Many sockets of a node.

use std::{
    io::{self, ErrorKind},
    net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket},
    ops::Range,
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use nix::{
    sched::{CloneFlags, unshare},
    sys::resource::{Resource, getrlimit, setrlimit},
};
use shunt_tests::Namespace;
use socket2::{Domain, Protocol, SockRef, Socket, Type};

/// The addresses that are the node's own: backends are at them, and sockets are bound to them.
const OWN: &str = "10.200.0.0/16";

/// The first address to which sockets are bound, how many are at each, and from which port on.
const FIRST_ADDRESS: u32 = 0x0ac8_0100;
const AT_EACH: u32 = 2_000;
const FIRST_PORT: u32 = 2_000;

/// Number of sockets of a thread, as far below what a process may usually have as it needs for
/// others, and an even number.
const HELD: u32 = 16_000;
const DESCRIPTORS: u64 = 20_000;

/// Time after which a socket that is not destroyed counts as forgotten.
const FORGOTTEN: Duration = Duration::from_secs(10);

/// Connected sockets. Threads hold them, each in a descriptor table of its own: a process may have
/// fewer descriptors than a node has sockets.
pub(super) struct Sockets(Vec<Holder>);

/// A thread that holds sockets, until this is dropped.
struct Holder(Sender<Work>);

/// Work on a holder's sockets.
type Work = Box<dyn FnOnce(&mut Vec<Socket>) + Send>;

/// Has the node own the addresses, and lets threads hold enough sockets.
///
/// # Errors
///
/// If the kernel refuses.
pub(super) fn make_room(namespace: &Namespace) -> Result<()> {
    namespace.configure(&format!("route add local {OWN} dev lo\n"))?;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft < DESCRIPTORS {
        setrlimit(Resource::RLIMIT_NOFILE, DESCRIPTORS, hard.max(DESCRIPTORS))
            .with_context(|| format!("cannot have {DESCRIPTORS} descriptors"))?;
    }
    Ok(())
}

impl Sockets {
    /// UDP sockets with these numbers, each of which has an address and port of its own.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub(super) fn udp(
        namespace: &Namespace,
        numbers: Range<u32>,
        frontend: SocketAddr,
    ) -> Result<Self> {
        let bound = |number: u32| -> io::Result<Socket> {
            let address = Ipv4Addr::from_bits(FIRST_ADDRESS + number / AT_EACH);
            let port = FIRST_PORT + number % AT_EACH;
            let socket = UdpSocket::bind((address, port as u16))?;
            socket.set_read_timeout(Some(FORGOTTEN))?;
            Ok(socket.into())
        };
        let sockets = Self::make(namespace, numbers, HELD, move |number| Ok([bound(number)?]))
            .context("cannot bind a UDP socket")?;
        sockets.connect(frontend)?;
        Ok(sockets)
    }

    /// Both ends of so many TCP connections.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub(super) fn tcp(
        namespace: &Namespace,
        connections: u32,
        backend: SocketAddr,
        frontend: SocketAddr,
    ) -> Result<Self> {
        let listener = namespace.enter(|| TcpListener::bind(backend));
        let listener = Arc::new(listener.context("cannot listen")?);
        let accepting = Arc::clone(&listener);
        // Two holders may accept each other's connections, and both have as many.
        let connected = move |_| -> io::Result<_> {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
            socket.connect(&frontend.into())?;
            Ok([socket, accepting.accept()?.0.into()])
        };
        Self::make(namespace, 0..connections, HELD / 2, connected)
            .context("cannot make a TCP connection")
    }

    /// Holders of the sockets that `make` returns for each of these numbers, `at_once` numbers each.
    fn make<const N: usize>(
        namespace: &Namespace,
        numbers: Range<u32>,
        at_once: u32,
        make: impl Fn(u32) -> io::Result<[Socket; N]> + Clone + Send + 'static,
    ) -> Result<Self> {
        let mut holders = Vec::new();
        let mut made = Vec::new();
        for first in numbers.clone().step_by(at_once as usize) {
            let holder = Holder::start(namespace);
            let (numbers, make) = (first..numbers.end.min(first + at_once), make.clone());
            made.push(holder.ask(move |sockets| -> Result<()> {
                unshare(CloneFlags::CLONE_FILES)?;
                for number in numbers {
                    sockets.extend(make(number)?);
                }
                Ok(())
            }));
            holders.push(holder);
        }
        made.into_iter().try_for_each(|made| made.recv()?)?;
        Ok(Self(holders))
    }

    /// Connects them, wherever they were connected before.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub(super) fn connect(&self, frontend: SocketAddr) -> Result<()> {
        let frontend = frontend.into();
        self.each(move |socket| Ok(socket.connect(&frontend)?))
            .context("cannot connect a UDP socket")
    }

    /// Makes sure that all of them are connected.
    ///
    /// # Errors
    ///
    /// If one is not.
    pub(super) fn are_connected(&self) -> Result<()> {
        self.each(|socket| Ok(socket.peer_addr().map(drop)?))
            .context("a socket on a backend that is there was destroyed")
    }

    /// Begins to wait until all of them are destroyed. Returns when the last one of each holder was,
    /// or which was not for a long time.
    pub(super) fn aborted(&self) -> Vec<Receiver<Result<Instant>>> {
        let is_aborted = |socket: &Socket| match SockRef::from(socket).recv(&mut []) {
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => Ok(()),
            other => bail!("a socket on a backend that is gone: {other:?}"),
        };
        let wait = move |sockets: &mut Vec<Socket>| {
            sockets.iter().try_for_each(is_aborted)?;
            Ok(Instant::now())
        };
        self.0.iter().map(|holder| holder.ask(wait)).collect()
    }

    fn each(&self, act: impl Fn(&Socket) -> Result<()> + Clone + Send + 'static) -> Result<()> {
        let ask = |holder: &Holder| {
            let act = act.clone();
            holder.ask(move |sockets| sockets.iter().try_for_each(act))
        };
        let done: Vec<_> = self.0.iter().map(ask).collect();
        done.into_iter().try_for_each(|done| done.recv()?)
    }
}

impl Holder {
    /// Starts a thread in the namespace, without sockets.
    fn start(namespace: &Namespace) -> Self {
        let (work, todo) = channel::<Work>();
        let hold = move || {
            let mut sockets = Vec::new();
            todo.into_iter().for_each(|work| work(&mut sockets));
        };
        // A thread is in the namespace of the one that starts it.
        namespace.enter(|| drop(thread::spawn(hold)));
        Self(work)
    }

    /// Does something with the sockets. The answer comes when it is done; none, if that panics.
    fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Vec<Socket>) -> T + Send + 'static,
    ) -> Receiver<T> {
        let (answer, answered) = channel();
        let work = Box::new(move |sockets: &mut Vec<Socket>| {
            // The receiver may be gone.
            drop(answer.send(work(sockets)));
        });
        // A thread that has ended sends no answer.
        drop(self.0.send(work));
        answered
    }
}
