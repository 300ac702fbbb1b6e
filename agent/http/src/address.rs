//! Address of an API: an address and a port, or a Unix socket.

use std::{
    fmt, io,
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    str::FromStr,
};

use thiserror::Error;

use crate::socket_file::{SocketError, SocketFile};

/// Prefix that a path of a Unix socket may have, as in the addresses of gRPC clients.
const UNIX: &str = "unix:";

/// Address at which an API is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServeAddress {
    /// At an address and a port.
    Tcp(SocketAddr),
    /// At a Unix socket, for the agent's own user.
    Unix(PathBuf),
}

/// A text is no place to serve at.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("must be IP:port, as in 127.0.0.1:8086, or unix:PATH")]
pub struct NotAPlace;

impl ServeAddress {
    /// Returns whether only processes of this host get there.
    pub const fn is_of_this_host(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().is_loopback(),
            Self::Unix(_) => true,
        }
    }

    /// Listens there.
    ///
    /// # Errors
    ///
    /// If the address or the socket cannot be had.
    pub async fn listen(self) -> Result<ServeListener, ListenError> {
        match self {
            Self::Tcp(address) => {
                let listener = TcpListener::bind(address).and_then(|listener| {
                    listener.set_nonblocking(true)?;
                    Ok(listener)
                });
                let listener = listener.map_err(|source| ListenError::Tcp { address, source })?;
                Ok(ServeListener::Tcp(listener))
            }
            Self::Unix(path) => Ok(ServeListener::Unix(SocketFile::listen(&path).await?)),
        }
    }
}

impl FromStr for ServeAddress {
    type Err = NotAPlace;

    fn from_str(text: &str) -> Result<Self, NotAPlace> {
        let path = text.strip_prefix(UNIX);
        let path = path.or_else(|| Some(text).filter(|text| text.starts_with('/')));
        match path {
            Some("") => Err(NotAPlace),
            Some(path) => Ok(Self::Unix(path.into())),
            None => {
                let address: Option<SocketAddr> = text.parse().ok();
                let address = address.filter(|address| address.port() != 0);
                address.map(Self::Tcp).ok_or(NotAPlace)
            }
        }
    }
}

impl fmt::Display for ServeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

/// It cannot be listened there.
#[derive(Debug, Error)]
pub enum ListenError {
    /// The address cannot be had.
    #[error("cannot listen at {address}: {source}")]
    Tcp {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The socket cannot be had.
    #[error(transparent)]
    Unix(#[from] SocketError),
}

/// A place that is listened at, and that does not answer yet.
#[derive(Debug)]
pub enum ServeListener {
    /// An address; the listener does not block.
    Tcp(TcpListener),
    /// A Unix socket.
    Unix(SocketFile),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_an_address_or_a_path() {
        let tcp = |text: &str| ServeAddress::Tcp(text.parse().unwrap());
        for (text, place, is_of_this_host) in [
            ("127.0.0.1:8086", tcp("127.0.0.1:8086"), true),
            ("[::1]:8086", tcp("[::1]:8086"), true),
            ("0.0.0.0:8086", tcp("0.0.0.0:8086"), false),
            ("[fd00::1]:1", tcp("[fd00::1]:1"), false),
            ("unix:a", ServeAddress::Unix("a".into()), true),
            ("/run/a", ServeAddress::Unix("/run/a".into()), true),
        ] {
            let parsed: ServeAddress = text.parse().unwrap();
            assert_eq!(parsed.is_of_this_host(), is_of_this_host, "{text}");
            assert_eq!(parsed.to_string().parse(), Ok(place.clone()));
            assert_eq!(parsed, place);
        }
        for text in [
            "",
            "unix:",
            "localhost:1",
            "127.0.0.1",
            "127.0.0.1:0",
            "run/a",
        ] {
            assert_eq!(text.parse::<ServeAddress>(), Err(NotAPlace), "{text}");
        }
    }
}
