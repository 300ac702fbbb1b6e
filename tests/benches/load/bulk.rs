//! Many bytes.

use std::{
    io::{self, Read as _, Write as _},
    net::{Shutdown, SocketAddrV4, TcpListener},
    time::Instant,
};

use super::{Times, tcp::connect};

/// Size of a write or read, in bytes.
const CHUNK: usize = 128 << 10;

/// Number of bytes for each recorded time: more than the sockets hold, so that both sides have had their turns.
pub(crate) const UNIT: usize = 8 << 20;

/// Reads all of one connection.
pub(super) fn receive(listener: &TcpListener) -> io::Result<()> {
    let (mut stream, _) = listener.accept()?;
    let mut buffer = vec![0; CHUNK];
    while stream.read(&mut buffer)? > 0 {}
    Ok(())
}

/// Writes a [`UNIT`] for each time.
pub(super) fn send(target: SocketAddrV4, mut times: Times) -> io::Result<Times> {
    let mut stream = connect(target)?;
    let buffer = vec![0x5a; CHUNK];
    let mut start = Instant::now();
    for _ in 0..times.wanted() {
        for _ in 0..UNIT / CHUNK {
            stream.write_all(&buffer)?;
        }
        start = times.put(start);
    }
    stream.shutdown(Shutdown::Write)?;
    // The receiver closes once it has read everything.
    stream.read_to_end(&mut Vec::new())?;
    Ok(times)
}
