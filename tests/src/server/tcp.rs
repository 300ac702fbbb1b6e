//! One TCP port of a backend.

use std::{
    collections::HashMap,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::{Backend, Joined};
use crate::{
    patience::patience,
    payload::{Checksum, chunks},
    protocol::{Reply, Request, Verb},
};

/// Connections that wait to be accepted: more than the load generator opens at once.
const BACKLOG: i32 = 1024;

/// Size of a read from a connection, in bytes.
const BUFFER: usize = 64 * 1024;

/// A request's line is never longer.
const LONGEST_LINE: u64 = 128;

/// Time that the end of all connections may take once they are shut down.
const PARTING: Duration = Duration::from_secs(2);

/// A listening socket with its accepting thread, and a thread for each connection.
pub(super) struct TcpService {
    listener: Arc<TcpListener>,
    open: Arc<OpenConnections>,
    _accepting: Joined,
}

impl TcpService {
    /// Binds and starts to accept, in the current thread's namespace.
    pub(super) fn start(backend: &Arc<Backend>, at: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(at), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.bind(&at.into())?;
        socket.listen(BACKLOG)?;
        let listener = Arc::new(TcpListener::from(socket));
        let open = Arc::new(OpenConnections::default());
        let accepting = thread::spawn({
            let (listener, open, backend) = (
                Arc::clone(&listener),
                Arc::clone(&open),
                Arc::clone(backend),
            );
            move || accept(&listener, &open, &backend)
        });
        Ok(Self {
            listener,
            open,
            _accepting: Joined(Some(accepting)),
        })
    }

    /// Ends the accepting thread and all connections.
    pub(super) fn wake(&self) {
        // Linux lets accept(2) return with EINVAL when its socket is shut down.
        drop(SockRef::from(&*self.listener).shutdown(Shutdown::Both));
        self.open.shut_down();
    }
}

impl Drop for TcpService {
    fn drop(&mut self) {
        self.open.wait_for_the_end(patience(PARTING));
    }
}

fn accept(listener: &TcpListener, open: &Arc<OpenConnections>, backend: &Arc<Backend>) {
    while !backend.stopped.load(Ordering::Acquire) {
        let Ok((stream, peer)) = listener.accept() else {
            continue;
        };
        let Ok(ticket) = open.enter(&stream) else {
            continue;
        };
        if backend.stopped.load(Ordering::Acquire) {
            // It came after the others were shut down.
            open.leave(ticket);
            return;
        }
        let (open, backend) = (Arc::clone(open), Arc::clone(backend));
        thread::spawn(move || {
            backend.connections.fetch_add(1, Ordering::Relaxed);
            // Its error is the client's to report: it sees the connection break off.
            drop(converse(&stream, peer, &backend));
            open.leave(ticket);
        });
    }
}

/// Answers requests until the client has no more.
fn converse(stream: &TcpStream, peer: SocketAddr, backend: &Backend) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let local = stream.local_addr()?;
    let mut reader = BufReader::with_capacity(BUFFER, stream);
    let mut writer = stream;
    let mut line = String::new();
    loop {
        line.clear();
        if reader.by_ref().take(LONGEST_LINE).read_line(&mut line)? == 0 {
            return Ok(());
        }
        let reply = |length, checksum| {
            let name = backend.name.clone();
            Reply {
                name,
                backend: local,
                peer,
                length,
                checksum,
            }
            .to_string()
        };
        // A person with `nc` who types anything learns where the connection ended.
        let Ok(Request { verb, length }) = line.parse() else {
            writer.write_all(reply(0, 0).as_bytes())?;
            continue;
        };
        match verb {
            Verb::Echo => {
                let mut message = reply(length, 0).into_bytes();
                reader.by_ref().take(length).read_to_end(&mut message)?;
                writer.write_all(&message)?;
                backend.count(2 * length);
            }
            Verb::Take => {
                let checksum = take(&mut reader, length)?;
                writer.write_all(reply(length, checksum).as_bytes())?;
                backend.count(length);
            }
            Verb::Give => {
                writer.write_all(reply(length, 0).as_bytes())?;
                for chunk in chunks(length) {
                    writer.write_all(chunk)?;
                }
                backend.count(length);
            }
            Verb::Bye => {
                writer.write_all(reply(0, 0).as_bytes())?;
                return stream.shutdown(Shutdown::Write);
            }
        }
    }
}

/// Reads `length` bytes and returns their checksum.
pub(crate) fn take(reader: &mut BufReader<&TcpStream>, length: u64) -> io::Result<u32> {
    let mut checksum = Checksum::default();
    let mut left = length;
    while left > 0 {
        let available = reader.fill_buf()?;
        if available.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let size = available
            .len()
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        checksum.add(&available[..size]);
        reader.consume(size);
        left -= size as u64;
    }
    Ok(checksum.value())
}

/// The connections that are open now, so that they can be ended.
#[derive(Default)]
struct OpenConnections {
    next: AtomicU64,
    streams: Mutex<HashMap<u64, TcpStream>>,
    left: Condvar,
}

impl OpenConnections {
    fn enter(&self, stream: &TcpStream) -> io::Result<u64> {
        let ticket = self.next.fetch_add(1, Ordering::Relaxed);
        let stream = stream.try_clone()?;
        self.streams
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(ticket, stream);
        Ok(ticket)
    }

    fn leave(&self, ticket: u64) {
        self.streams
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&ticket);
        self.left.notify_all();
    }

    fn shut_down(&self) {
        for stream in self
            .streams
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
        {
            drop(stream.shutdown(Shutdown::Both));
        }
    }

    fn wait_for_the_end(&self, limit: Duration) {
        let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        drop(
            self.left
                .wait_timeout_while(streams, limit, |streams| !streams.is_empty()),
        );
    }
}
