//! A port of this host that leads to a Unix socket: the way to what a process serves whose network
//! namespace has none to here.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use anyhow::{Context as _, Result};

/// The port, as long as this is not dropped.
#[derive(Debug)]
pub struct Forward {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Forward {
    /// Leads from this port of 127.0.0.1, or from one that the kernel chooses if it is 0, to the socket at
    /// `path`.
    ///
    /// # Errors
    ///
    /// The port is taken.
    pub fn start(port: u16, path: &Path) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .with_context(|| format!("cannot listen at port {port} of 127.0.0.1"))?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let thread = {
            let (stop, path) = (Arc::clone(&stop), path.to_owned());
            thread::spawn(move || lead(&listener, &path, &stop))
        };
        Ok(Self {
            address,
            stop,
            thread: Some(thread),
        })
    }

    /// Returns the address that it begins at.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes it.
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn lead(listener: &TcpListener, path: &Path, stop: &AtomicBool) {
    for stream in listener.incoming() {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        if let Ok(stream) = stream {
            let path = PathBuf::from(path);
            // It ends with its connection, which either side may close.
            thread::spawn(move || connect(&stream, &path));
        }
    }
}

fn connect(client: &TcpStream, path: &Path) -> io::Result<()> {
    let server = UnixStream::connect(path)?;
    client.set_nodelay(true)?;
    thread::scope(|scope| {
        scope.spawn(|| {
            drop(copy(client, &server));
            drop(server.shutdown(Shutdown::Write));
        });
        drop(copy(&server, client));
        drop(client.shutdown(Shutdown::Both));
        drop(server.shutdown(Shutdown::Both));
    });
    Ok(())
}

fn copy(mut from: impl Read, mut to: impl Write) -> io::Result<u64> {
    io::copy(&mut from, &mut to)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::socket_path::SocketPath;

    #[test]
    fn what_goes_in_at_the_port_comes_out_at_the_socket() {
        let socket = SocketPath::new();
        std::fs::create_dir_all(socket.path().parent().unwrap()).unwrap();
        let listener = UnixListener::bind(socket.path()).unwrap();
        let forward = Forward::start(0, socket.path()).unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            stream.write_all(text.to_uppercase().as_bytes()).unwrap();
        });
        let mut client = TcpStream::connect(forward.address()).unwrap();
        client.write_all(b"hello").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        server.join().unwrap();
        assert_eq!(answer, "HELLO");
    }
}
