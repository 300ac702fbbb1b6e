//! A backend's servers: TCP and UDP, on several addresses and ports of one pod.

mod tcp;
mod udp;

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use anyhow::{Context as _, Result};

pub(crate) use self::tcp::take;
use self::{tcp::TcpService, udp::UdpService};
use crate::{namespace::Namespace, wait::wait_until};

/// Time for which a closed socket may still hold a port.
const FREE_SOON: Duration = Duration::from_secs(2);

/// State that the threads of a server share.
#[derive(Debug)]
struct Backend {
    name: String,
    stopped: AtomicBool,
    connections: AtomicU64,
    bytes: AtomicU64,
}

impl Backend {
    fn count(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Servers in a pod that answer every request with the pod's name, the address they answer from
/// and the address they were asked from. They stop when dropped.
pub struct Server {
    backend: Arc<Backend>,
    tcp: Vec<TcpService>,
    udp: Vec<UdpService>,
}

impl Server {
    /// Listens on TCP and UDP at each of the addresses and ports, in the namespace.
    ///
    /// # Errors
    ///
    /// When an address and port cannot be bound.
    pub fn start(
        namespace: &Namespace,
        name: &str,
        addresses: &[IpAddr],
        ports: &[u16],
    ) -> Result<Self> {
        let backend = Arc::new(Backend {
            name: name.to_owned(),
            stopped: AtomicBool::new(false),
            connections: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        });
        let mut server = Self {
            backend,
            tcp: Vec::new(),
            udp: Vec::new(),
        };
        namespace.enter(|| {
            let ends = addresses
                .iter()
                .flat_map(|ip| ports.iter().map(|port| SocketAddr::new(*ip, *port)));
            for at in ends {
                let context = || format!("{name} cannot listen at {at}");
                let tcp = when_free(|| TcpService::start(&server.backend, at));
                server.tcp.push(tcp.with_context(context)?);
                let udp = when_free(|| UdpService::start(&server.backend, at));
                server.udp.push(udp.with_context(context)?);
            }
            Ok(server)
        })
    }

    /// Returns the number of TCP connections accepted and UDP requests answered.
    pub fn connections(&self) -> u64 {
        self.backend.connections.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes of requests and replies that these carried, without their lines.
    pub fn bytes(&self) -> u64 {
        self.backend.bytes.load(Ordering::Relaxed)
    }
}

/// Listens, as soon as the port is free: a process that another test is just starting holds the
/// sockets of this one, also those that were closed since, until it runs its program.
fn when_free<T>(listen: impl Fn() -> io::Result<T>) -> Result<T> {
    let is_taken = |error: &io::Error| error.kind() == io::ErrorKind::AddrInUse;
    let result = wait_until("the port is free", FREE_SOON, || match listen() {
        Err(error) if is_taken(&error) => None,
        result => Some(result),
    })?;
    Ok(result?)
}

impl Drop for Server {
    fn drop(&mut self) {
        self.backend.stopped.store(true, Ordering::Release);
        // First wake all of them, then wait for each.
        for service in &self.tcp {
            service.wake();
        }
        for service in &self.udp {
            service.wake();
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            backend,
            tcp: _,
            udp: _,
        } = self;
        f.debug_tuple("Server").field(backend).finish()
    }
}

/// A server's thread, joined when dropped.
struct Joined(Option<JoinHandle<()>>);

impl Drop for Joined {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take()
            && thread.join().is_err()
        {
            eprintln!("a server thread panicked");
        }
    }
}
