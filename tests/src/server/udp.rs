//! One UDP port of a backend.

use std::{
    io,
    net::{SocketAddr, UdpSocket},
    sync::{Arc, atomic::Ordering},
    thread,
    time::Duration,
};

use super::{Backend, Joined};
use crate::{payload::Checksum, protocol::Reply};

/// The largest UDP payload.
const LARGEST: usize = 65_507;

/// Interval at which the thread checks for its end, if nothing wakes it.
const GLANCE: Duration = Duration::from_millis(200);

/// A bound socket with its answering thread.
pub(super) struct UdpService {
    socket: Arc<UdpSocket>,
    _answering: Joined,
}

impl UdpService {
    /// Binds and starts to answer, in the current thread's namespace.
    pub(super) fn start(backend: &Arc<Backend>, at: SocketAddr) -> io::Result<Self> {
        let socket = Arc::new(UdpSocket::bind(at)?);
        socket.set_read_timeout(Some(GLANCE))?;
        let answering = thread::spawn({
            let (socket, backend) = (Arc::clone(&socket), Arc::clone(backend));
            move || answer(&socket, at, &backend)
        });
        Ok(Self {
            socket,
            _answering: Joined(Some(answering)),
        })
    }

    /// Ends the answering thread.
    pub(super) fn wake(&self) {
        // By a datagram to itself. A shutdown would wake the reader without a sender's address, and std panics
        // if what stands in its place looks like one. Without a way to itself the reader glances soon enough.
        if let Ok(own) = self.socket.local_addr() {
            drop(self.socket.send_to(&[], own));
        }
    }
}

fn answer(socket: &UdpSocket, local: SocketAddr, backend: &Backend) {
    let mut buffer = vec![0; LARGEST];
    while !backend.stopped.load(Ordering::Acquire) {
        let Ok((length, peer)) = socket.recv_from(&mut buffer) else {
            continue;
        };
        if backend.stopped.load(Ordering::Acquire) {
            return;
        }
        let mut checksum = Checksum::default();
        checksum.add(&buffer[..length]);
        let reply = Reply {
            name: backend.name.clone(),
            backend: local,
            peer,
            length: length as u64,
            checksum: checksum.value(),
        };
        // Counted before the answer leaves, so that who has the answer finds it counted.
        backend.connections.fetch_add(1, Ordering::Relaxed);
        backend.count(length as u64);
        // A client that has gone away is no concern of the server's.
        drop(socket.send_to(reply.to_string().as_bytes(), peer));
    }
}
