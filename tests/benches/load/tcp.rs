//! Requests over TCP.

use std::{
    io::{self, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream},
    time::Instant,
};

use socket2::SockRef;

use super::{MESSAGE, PATIENCE, Times};

/// The side that closes a connection first, and so keeps it in TIME_WAIT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closes {
    Client,
    Server,
}

/// A listener on all addresses of this namespace. It and its connections do not wait forever.
pub(super) fn listen(port: u16) -> io::Result<TcpListener> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))?;
    SockRef::from(&listener).set_read_timeout(Some(PATIENCE))?;
    Ok(listener)
}

/// Answers all requests of one connection.
pub(super) fn echo(listener: &TcpListener) -> io::Result<()> {
    let (mut stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    let mut message = [0; MESSAGE];
    loop {
        match stream.read(&mut message)? {
            0 => return Ok(()),
            length => stream.write_all(&message[..length])?,
        }
    }
}

/// Requests over one connection.
pub(super) fn requests(target: SocketAddrV4, mut times: Times) -> io::Result<Times> {
    let mut stream = connect(target)?;
    stream.set_nodelay(true)?;
    let mut message = [0; MESSAGE];
    let mut start = Instant::now();
    for _ in 0..times.wanted() {
        stream.write_all(&message)?;
        stream.read_exact(&mut message)?;
        start = times.put(start);
    }
    Ok(times)
}

/// Answers one request of each of `count` connections.
pub(super) fn serve(listener: &TcpListener, count: usize, closes: Closes) -> io::Result<()> {
    let mut message = [0; MESSAGE];
    for _ in 0..count {
        let (mut stream, _) = listener.accept()?;
        stream.read_exact(&mut message)?;
        stream.write_all(&message)?;
        if closes == Closes::Client {
            end(&mut stream, &mut message)?;
        }
    }
    Ok(())
}

/// A connection each, from before it is opened until it is closed. A server that closes first has
/// done so before the client does.
pub(super) fn connections(
    target: SocketAddrV4,
    closes: Closes,
    mut times: Times,
) -> io::Result<Times> {
    let mut message = [0; MESSAGE];
    let mut start = Instant::now();
    for _ in 0..times.wanted() {
        let mut stream = connect(target)?;
        stream.write_all(&message)?;
        stream.read_exact(&mut message)?;
        if closes == Closes::Server {
            end(&mut stream, &mut message)?;
        }
        drop(stream);
        start = times.put(start);
    }
    Ok(times)
}

pub(super) fn connect(target: SocketAddrV4) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(target)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Waits until the other side has closed.
fn end(stream: &mut TcpStream, message: &mut [u8]) -> io::Result<()> {
    match stream.read(message)? {
        0 => Ok(()),
        _ => Err(io::Error::other("more than one request came")),
    }
}
