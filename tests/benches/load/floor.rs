//! The load without a network: what of the times is the generator's own.

use std::{
    io::{self, Read as _, Write as _},
    os::unix::net::UnixStream,
    thread,
    time::Instant,
};

use super::{MESSAGE, Times, pin};

/// The loop with nothing in it but taking down the times.
pub(crate) fn nothing(count: usize) -> io::Result<Times> {
    thread::scope(|scope| {
        let alone = scope.spawn(|| {
            pin()?;
            let mut times = Times::with_room(count / 10, count);
            let mut start = Instant::now();
            for _ in 0..times.wanted() {
                start = times.put(start);
            }
            Ok(times)
        });
        joined(alone)
    })
}

/// The same requests as over TCP, between the same two threads, over a pair of Unix sockets.
pub(crate) fn socket_pair(count: usize) -> io::Result<Times> {
    let (mut client, mut server) = UnixStream::pair()?;
    thread::scope(|scope| {
        let server = scope.spawn(move || {
            pin()?;
            let mut message = [0; MESSAGE];
            loop {
                match server.read(&mut message)? {
                    0 => return Ok(()),
                    length => server.write_all(&message[..length])?,
                }
            }
        });
        let client = scope.spawn(move || {
            pin()?;
            let mut times = Times::with_room(count / 10, count);
            let mut message = [0; MESSAGE];
            let mut start = Instant::now();
            for _ in 0..times.wanted() {
                client.write_all(&message)?;
                client.read_exact(&mut message)?;
                start = times.put(start);
            }
            Ok(times)
        });
        let times = joined(client)?;
        joined(server)?;
        Ok(times)
    })
}

fn joined<T>(thread: thread::ScopedJoinHandle<'_, io::Result<T>>) -> io::Result<T> {
    let panicked = |_| io::Error::other("a thread of the load panicked");
    thread.join().map_err(panicked)?
}
