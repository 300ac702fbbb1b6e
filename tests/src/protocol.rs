//! The protocol of client and server.
//!
//! A request is a line, `VERB LENGTH`, and for [`Verb::Echo`] and [`Verb::Take`] that many bytes
//! after it. The reply starts with a line that names the backend and what it saw; a person with
//! `nc` can read it. Over UDP a datagram is one request or one reply, and the verb is always echo.

use std::{fmt, net::SocketAddr, str::FromStr};

/// A client's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    /// Send back the bytes that follow.
    Echo,
    /// Take the bytes that follow and reply with their checksum.
    Take,
    /// Reply with that many bytes of the pattern.
    Give,
    /// Reply, then close the connection from the server's side.
    Bye,
}

impl Verb {
    const ALL: [Self; 4] = [Self::Echo, Self::Take, Self::Give, Self::Bye];

    const fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::Take => "take",
            Self::Give => "give",
            Self::Bye => "bye",
        }
    }
}

/// A request's line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) verb: Verb,
    pub(crate) length: u64,
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verb, length } = self;
        writeln!(f, "{} {length}", verb.name())
    }
}

impl FromStr for Request {
    type Err = ();

    fn from_str(line: &str) -> Result<Self, ()> {
        let mut words = line.split_whitespace();
        let word = words.next().ok_or(())?;
        let verb = Verb::ALL
            .into_iter()
            .find(|verb| verb.name() == word)
            .ok_or(())?;
        let length = words.next().ok_or(())?.parse().map_err(|_| ())?;
        Ok(Self { verb, length })
    }
}

/// A reply's line: who answers, and what it saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    /// The name of the pod that answers.
    pub(crate) name: String,
    /// The address that it answers from, by its own socket.
    pub(crate) backend: SocketAddr,
    /// The address that it is asked from, by its own socket.
    pub(crate) peer: SocketAddr,
    /// Number of bytes that it took or sends.
    pub(crate) length: u64,
    /// Their CRC-32; 0 where the bytes follow and speak for themselves.
    pub(crate) checksum: u32,
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            backend,
            peer,
            length,
            checksum,
        } = self;
        writeln!(
            f,
            "{name} {backend} asked by {peer} length {length} crc {checksum:08x}"
        )
    }
}

impl FromStr for Reply {
    type Err = ();

    fn from_str(line: &str) -> Result<Self, ()> {
        let words: Vec<_> = line.split_whitespace().collect();
        let [
            name,
            backend,
            "asked",
            "by",
            peer,
            "length",
            length,
            "crc",
            checksum,
        ] = words[..]
        else {
            return Err(());
        };
        Ok(Self {
            name: name.to_owned(),
            backend: backend.parse().map_err(|_| ())?,
            peer: peer.parse().map_err(|_| ())?,
            length: length.parse().map_err(|_| ())?,
            checksum: u32::from_str_radix(checksum, 16).map_err(|_| ())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_replies_survive_the_wire() {
        for verb in Verb::ALL {
            let request = Request {
                verb,
                length: 1 << 40,
            };
            assert_eq!(request.to_string().parse(), Ok(request));
        }
        let reply = Reply {
            name: "pod-a".to_owned(),
            backend: "10.1.1.3:8080".parse().unwrap(),
            peer: "[2001:db8::1]:40000".parse().unwrap(),
            length: 12,
            checksum: 0xbeef,
        };
        assert_eq!(reply.to_string().parse(), Ok(reply));
    }

    #[test]
    fn anything_else_is_refused() {
        for line in ["", "hello", "echo", "echo -1", "shout 3"] {
            assert_eq!(line.parse::<Request>(), Err(()), "{line:?}");
        }
        assert_eq!("pod-a says hello".parse::<Reply>(), Err(()));
    }
}
