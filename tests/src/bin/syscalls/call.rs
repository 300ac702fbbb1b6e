//! The calls by their words. A socket has a name, which is the first word after the call's.

use std::{
    collections::HashMap,
    io::{self, BufRead as _, BufReader, Read as _},
    net::{SocketAddr, UdpSocket},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use nix::{
    errno::Errno,
    libc::MSG_FASTOPEN,
    sys::socket::{setsockopt, sockopt::TcpFastOpenConnect},
};
use rustix::net::connect_unspec;
use shunt_tests::{patience, wait_until};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::{
    messages::{LONGEST_REPLY, receive_many, send_many, sent_with_syn},
    reply, threads,
};

/// Time that a call waits for what does not come.
const PATIENCE: Duration = Duration::from_secs(5);

/// Open sockets by their names.
#[derive(Debug, Default)]
pub(crate) struct Sockets(HashMap<String, Open>);

#[derive(Debug)]
struct Open {
    socket: Socket,
    is_stream: bool,
}

impl Sockets {
    /// Makes the call of this line. Returns the result, in words.
    pub(crate) fn call(&mut self, line: &str) -> Result<String> {
        let words: Vec<_> = line.split_whitespace().collect();
        let [call, name, arguments @ ..] = &words[..] else {
            bail!("a call and a socket are missing");
        };
        let result = match (*call, arguments) {
            ("open", [kind]) => {
                let opened = Open::new(kind)?;
                opened.map(|open| {
                    self.0.insert((*name).to_owned(), open);
                    "ok".to_owned()
                })
            }
            ("close", []) => {
                self.0.remove(*name).context("no such socket")?;
                Ok("ok".to_owned())
            }
            _ => {
                let open = self.0.get(*name).context("no such socket")?;
                open.call(call, arguments)?
            }
        };
        Ok(result.unwrap_or_else(|error| error_name(&error)))
    }
}

/// The name of the error, as `errno.h` has it.
fn error_name(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => format!("{:?}", Errno::from_raw(number)),
        None => error.to_string(),
    }
}

impl Open {
    fn new(kind: &str) -> Result<io::Result<Self>> {
        let (transport, domain) = kind
            .split_at_checked(kind.len().saturating_sub(1))
            .context("no kind of socket")?;
        let domain = match domain {
            "4" => Domain::IPV4,
            "6" => Domain::IPV6,
            _ => bail!("no family"),
        };
        let (kind, protocol) = match transport {
            "tcp" => (Type::STREAM, Protocol::TCP),
            "mptcp" => (Type::STREAM, Protocol::MPTCP),
            "udp" => (Type::DGRAM, Protocol::UDP),
            _ => bail!("no transport"),
        };
        Ok(
            Socket::new(domain, kind, Some(protocol)).and_then(|socket| {
                socket.set_read_timeout(Some(patience(PATIENCE)))?;
                socket.set_write_timeout(Some(patience(PATIENCE)))?;
                Ok(Self {
                    socket,
                    is_stream: kind == Type::STREAM,
                })
            }),
        )
    }

    /// A call on this socket. An error of the outer kind is one of its words.
    fn call(&self, call: &str, arguments: &[&str]) -> Result<io::Result<String>> {
        let Self { socket, is_stream } = self;
        let ok = |()| "ok".to_owned();
        Ok(match (call, arguments) {
            ("bind", [address]) => socket.bind(&parse(address)?.into()).map(ok),
            ("bind-device", [device]) => socket.bind_device(Some(device.as_bytes())).map(ok),
            ("nonblocking", []) => socket.set_nonblocking(true).map(ok),
            ("blocking", []) => socket.set_nonblocking(false).map(ok),
            ("fastopen-connect", []) => setsockopt(socket, TcpFastOpenConnect, &true)
                .map_err(io::Error::from)
                .map(ok),
            ("connect", [address]) => socket.connect(&parse(address)?.into()).map(ok),
            ("disconnect", []) => connect_unspec(socket).map_err(io::Error::from).map(ok),
            ("connected", []) => self.connected().map(ok),
            ("getpeername", []) => socket.peer_addr().map(|peer| text(&peer)),
            ("getsockname", []) => socket.local_addr().map(|own| match own.as_socket() {
                Some(own) => own.ip().to_string(),
                None => format!("{own:?}"),
            }),
            ("send", [message]) => socket
                .send(self.framed(message).as_bytes())
                .map(|_| "ok".to_owned()),
            ("sendto", [address, message]) => socket
                .send_to(message.as_bytes(), &parse(address)?.into())
                .map(|_| "ok".to_owned()),
            ("sendto-fastopen", [address, message]) => socket
                .send_to_with_flags(
                    self.framed(message).as_bytes(),
                    &parse(address)?.into(),
                    MSG_FASTOPEN,
                )
                .map(|_| "ok".to_owned()),
            ("sendmmsg", datagrams) => {
                let (pairs, _) = datagrams.as_chunks();
                let pairs = pairs
                    .iter()
                    .map(|[address, message]| Ok((parse(address)?, *message)));
                send_many(socket, &pairs.collect::<Result<Vec<_>>>()?).map(|sent| sent.to_string())
            }
            ("sent-with-syn", []) => sent_with_syn(socket).map(|sent| sent.to_string()),
            ("recv", []) if *is_stream => self.receive_line(),
            ("recv", []) => self.datagrams().and_then(|socket| {
                let mut buffer = [0; LONGEST_REPLY];
                let length = socket.recv(&mut buffer)?;
                Ok(self.words(&buffer[..length]))
            }),
            ("recvfrom", []) => self.receive_from(UdpSocket::recv_from),
            ("peek", []) => self.receive_from(UdpSocket::peek_from),
            ("recvmmsg", [count]) => receive_many(socket, count.parse()?).map(|received| {
                let said = |(from, bytes): &(_, Vec<u8>)| format!("{from} {}", self.words(bytes));
                let mut said: Vec<_> = received.iter().map(said).collect();
                said.sort();
                said.join(", ")
            }),
            ("ask-by-threads", [times, targets @ ..]) => {
                let targets = targets.iter().map(|target| parse(target));
                let targets = targets.collect::<Result<Vec<_>>>()?;
                let times = times.parse()?;
                let wrong = self
                    .datagrams()
                    .and_then(|socket| threads::ask(&socket, times, &targets));
                wrong.map(|wrong| format!("{wrong} wrong"))
            }
            _ => bail!("no such call, or other arguments"),
        })
    }

    /// Waits until a connection is made, or is not.
    fn connected(&self) -> io::Result<()> {
        let ended = wait_until("the connection", PATIENCE, || {
            match self.socket.take_error() {
                Ok(None) => self.socket.peer_addr().is_ok().then_some(Ok(())),
                Ok(Some(error)) | Err(error) => Some(Err(error)),
            }
        });
        ended.unwrap_or_else(|_| Err(Errno::ETIMEDOUT.into()))
    }

    /// A request of this text.
    fn framed(&self, message: &str) -> String {
        if self.is_stream {
            format!("echo {}\n{message}", message.len())
        } else {
            message.to_owned()
        }
    }

    /// The socket as one of the standard library.
    fn datagrams(&self) -> io::Result<UdpSocket> {
        Ok(self.socket.try_clone()?.into())
    }

    fn receive_from(
        &self,
        receive: impl FnOnce(&UdpSocket, &mut [u8]) -> io::Result<(usize, SocketAddr)>,
    ) -> io::Result<String> {
        let mut buffer = [0; LONGEST_REPLY];
        let (length, from) = receive(&self.datagrams()?, &mut buffer)?;
        Ok(format!("{from} {}", self.words(&buffer[..length])))
    }

    /// The server's line and the bytes of the request, which it sends back.
    fn receive_line(&self) -> io::Result<String> {
        let mut reader = BufReader::new(&self.socket);
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok("end".to_owned());
        }
        let mut words = line.split_whitespace().skip_while(|word| *word != "length");
        let length = words.nth(1).and_then(|length| length.parse().ok());
        let mut bytes = vec![0; length.unwrap_or(0)];
        reader.read_exact(&mut bytes)?;
        let said = self.words(line.as_bytes());
        Ok(format!("{said} {}", String::from_utf8_lossy(&bytes)))
    }

    fn words(&self, reply: &[u8]) -> String {
        let own = self.socket.local_addr().ok();
        let own = own.and_then(|own| Some(own.as_socket()?.port()));
        reply::words(reply, own)
    }
}

fn parse(address: &str) -> Result<SocketAddr> {
    address
        .parse()
        .with_context(|| format!("no address: {address}"))
}

fn text(address: &SockAddr) -> String {
    match address.as_socket() {
        Some(address) => address.to_string(),
        None => format!("{address:?}"),
    }
}
