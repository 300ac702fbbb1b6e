//! A client's TCP connection.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpStream},
    time::Instant,
};

use rustix::net::connect_unspec;
use socket2::Type;

use super::{Answer, Failure, Target};
use crate::{
    patience::patience,
    payload::{Checksum, chunks},
    protocol::{Reply, Request, Verb},
    server::take,
};

/// An open connection, for as many requests as one likes. Dropping it closes it.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    client: SocketAddr,
    since: Instant,
    fresh: bool,
}

impl Connection {
    pub(super) fn open(target: &Target) -> Result<Self, Failure> {
        let since = Instant::now();
        let socket = target.socket(Type::STREAM)?;
        let patience = patience(target.patience);
        socket.connect_timeout(&target.address.into(), patience)?;
        let stream = TcpStream::from(socket);
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        let client = stream.local_addr()?;
        Ok(Self {
            stream,
            client,
            since,
            fresh: true,
        })
    }

    /// The client's own address and port.
    pub const fn client(&self) -> SocketAddr {
        self.client
    }

    /// The other end, by the client's own socket.
    ///
    /// # Errors
    ///
    /// When the connection has ended.
    pub fn peer(&self) -> Result<SocketAddr, Failure> {
        Ok(self.stream.peer_addr()?)
    }

    /// Sends `length` bytes and gets them back.
    ///
    /// # Errors
    ///
    /// When the connection is broken or other bytes come back.
    pub fn echo(&mut self, length: usize) -> Result<Answer, Failure> {
        let since = self.start();
        let sent = chunks(length as u64).collect::<Vec<_>>().concat();
        let mut message = Request {
            verb: Verb::Echo,
            length: length as u64,
        }
        .to_string()
        .into_bytes();
        message.extend_from_slice(&sent);
        self.writer().write_all(&message)?;
        let mut reader = BufReader::new(&self.stream);
        let reply = read_reply(&mut reader, length as u64)?;
        let mut received = vec![0; length];
        reader.read_exact(&mut received)?;
        if received != sent {
            return Err(Failure::Wrong(format!(
                "{} sent back other bytes",
                reply.name
            )));
        }
        Ok(Answer::new(reply, self.client, 2 * length as u64, since))
    }

    /// Sends `length` bytes; the server computes their checksum, which must be right.
    ///
    /// # Errors
    ///
    /// When the connection is broken or the checksums differ.
    pub fn send(&mut self, length: u64) -> Result<Answer, Failure> {
        let since = self.start();
        let mut writer = self.writer();
        writer.write_all(
            Request {
                verb: Verb::Take,
                length,
            }
            .to_string()
            .as_bytes(),
        )?;
        let mut checksum = Checksum::default();
        for chunk in chunks(length) {
            checksum.add(chunk);
            writer.write_all(chunk)?;
        }
        let reply = read_reply(&mut BufReader::new(&self.stream), length)?;
        compare(&reply, checksum.value(), reply.checksum)?;
        Ok(Answer::new(reply, self.client, length, since))
    }

    /// Lets the server send `length` bytes and compares their checksum.
    ///
    /// # Errors
    ///
    /// When the connection is broken or the checksums differ.
    pub fn fetch(&mut self, length: u64) -> Result<Answer, Failure> {
        let since = self.start();
        self.order(length)?;
        self.receive(length, since)
    }

    /// Requests `length` bytes from the server, and ends the client's own direction with a FIN. More bytes than
    /// sockets hold keep the server's direction open until the client receives them.
    ///
    /// # Errors
    ///
    /// If the connection is broken.
    pub fn half_close(mut self, length: u64) -> Result<HalfClosed, Failure> {
        let since = self.start();
        self.order(length)?;
        self.stream.shutdown(Shutdown::Write)?;
        Ok(HalfClosed {
            connection: self,
            length,
            since,
        })
    }

    /// Requests `length` bytes.
    fn order(&self, length: u64) -> Result<(), Failure> {
        let verb = Verb::Give;
        let request = Request { verb, length }.to_string();
        Ok(self.writer().write_all(request.as_bytes())?)
    }

    /// Receives the bytes of a request that began at `since`, and compares their checksum.
    fn receive(&self, length: u64, since: Instant) -> Result<Answer, Failure> {
        let mut reader = BufReader::with_capacity(256 * 1024, &self.stream);
        let reply = read_reply(&mut reader, length)?;
        let received = take(&mut reader, length)?;
        let mut expected = Checksum::default();
        chunks(length).for_each(|chunk| expected.add(chunk));
        compare(&reply, expected.value(), received)?;
        Ok(Answer::new(reply, self.client, length, since))
    }

    /// Lets the server close the connection first, so that the client's port is free at once.
    ///
    /// # Errors
    ///
    /// When the connection is broken or does not end.
    pub fn part(mut self) -> Result<Answer, Failure> {
        let since = self.start();
        self.writer().write_all(
            Request {
                verb: Verb::Bye,
                length: 0,
            }
            .to_string()
            .as_bytes(),
        )?;
        let mut reader = BufReader::new(&self.stream);
        let reply = read_reply(&mut reader, 0)?;
        if reader.read(&mut [0])? != 0 {
            return Err(Failure::Wrong(format!(
                "{} went on after its farewell",
                reply.name
            )));
        }
        let answer = Answer::new(reply, self.client, 0, since);
        self.stream.shutdown(Shutdown::Write)?;
        Ok(answer)
    }

    /// Closes the connection from the client's side first and waits for the server's FIN.
    ///
    /// # Errors
    ///
    /// When the connection is broken or does not end.
    pub fn close(self) -> Result<(), Failure> {
        self.stream.shutdown(Shutdown::Write)?;
        match (&self.stream).read(&mut [0])? {
            0 => Ok(()),
            _ => Err(Failure::Wrong("bytes that nobody asked for".to_owned())),
        }
    }

    /// Ends the connection with a reset instead of a FIN, now.
    ///
    /// Closing the socket would do so only once no process has it, and a process that another thread
    /// forks has it until it runs a program of its own.
    ///
    /// # Errors
    ///
    /// When the socket cannot be disconnected.
    pub fn reset(self) -> Result<(), Failure> {
        Ok(connect_unspec(&self.stream).map_err(io::Error::from)?)
    }

    /// Returns the begin of the request that starts now: for the first one, that of its connection.
    fn start(&mut self) -> Instant {
        if !std::mem::take(&mut self.fresh) {
            self.since = Instant::now();
        }
        self.since
    }

    const fn writer(&self) -> &TcpStream {
        &self.stream
    }
}

/// A connection whose client has sent its FIN, and whose server has bytes left to send.
#[derive(Debug)]
pub struct HalfClosed {
    connection: Connection,
    length: u64,
    since: Instant,
}

impl HalfClosed {
    /// Receives the server's bytes and compares their checksum.
    ///
    /// # Errors
    ///
    /// When the connection is broken or the checksums differ.
    pub fn receive(self) -> Result<Answer, Failure> {
        self.connection.receive(self.length, self.since)
    }
}

fn read_reply(reader: &mut BufReader<&TcpStream>, length: u64) -> Result<Reply, Failure> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Err(Failure::Closed);
    }
    let reply: Reply = line
        .parse()
        .map_err(|()| Failure::Wrong(line.trim_end().to_owned()))?;
    if reply.length != length {
        return Err(Failure::Wrong(format!(
            "asked with length {length}: {}",
            line.trim_end()
        )));
    }
    Ok(reply)
}

fn compare(reply: &Reply, ours: u32, theirs: u32) -> Result<(), Failure> {
    if ours == theirs {
        return Ok(());
    }
    let Reply { name, length, .. } = reply;
    Err(Failure::Wrong(format!(
        "{name}: CRC of {length} bytes is {theirs:08x}, not {ours:08x}"
    )))
}
