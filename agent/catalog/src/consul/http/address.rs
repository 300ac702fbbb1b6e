//! The address of a Consul agent.

use std::{fmt, path::PathBuf, str::FromStr};

use hyper::Uri;
use thiserror::Error;

/// Consul's port of HTTP.
const PORT: u16 = 8500;

/// Address of a Consul agent: `http://HOST:PORT`, `https://HOST:PORT`, `unix://PATH`, or
/// `HOST:PORT` alone, as Consul's own clients take it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsulAddress {
    pub(super) place: Place,
}

/// A place to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// Over TCP, with TLS or without.
    Tcp { host: String, port: u16, tls: bool },
    /// A socket in the file system.
    Unix(PathBuf),
}

/// Not an address of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "`{given}` is no address of a Consul agent: {why}; give it as http://HOST:PORT, \
     https://HOST:PORT or unix:///PATH"
)]
pub struct NotAnAddress {
    given: String,
    why: &'static str,
}

impl ConsulAddress {
    /// With TLS, if it is reached over TCP.
    #[must_use]
    pub fn with_tls(self) -> Self {
        let place = match self.place {
            Place::Tcp { host, port, .. } => Place::Tcp {
                host,
                port,
                tls: true,
            },
            Place::Unix(path) => Place::Unix(path),
        };
        Self { place }
    }

    /// Returns whether it is reached with TLS.
    pub const fn has_tls(&self) -> bool {
        matches!(self.place, Place::Tcp { tls: true, .. })
    }

    /// Returns its authority in a request.
    pub(super) fn authority(&self) -> String {
        match &self.place {
            Place::Tcp { host, port, .. } => format!("{host}:{port}"),
            Place::Unix(_) => "localhost".to_owned(),
        }
    }
}

impl Default for ConsulAddress {
    /// As of Consul's own clients: port 8500 of this host.
    fn default() -> Self {
        Self {
            place: Place::Tcp {
                host: "127.0.0.1".to_owned(),
                port: PORT,
                tls: false,
            },
        }
    }
}

impl FromStr for ConsulAddress {
    type Err = NotAnAddress;

    fn from_str(text: &str) -> Result<Self, NotAnAddress> {
        let wrong = |why| NotAnAddress {
            given: text.to_owned(),
            why,
        };
        if let Some(path) = text.strip_prefix("unix://") {
            if !path.starts_with('/') {
                return Err(wrong("its path does not begin with /"));
            }
            let place = Place::Unix(path.into());
            return Ok(Self { place });
        }
        let full = if text.contains("://") {
            text.to_owned()
        } else {
            format!("http://{text}")
        };
        let uri: Uri = full.parse().map_err(|_| wrong("it is no URL"))?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(wrong("its scheme is none of http, https and unix")),
        };
        let authority = uri.authority().ok_or_else(|| wrong("it has no host"))?;
        if authority.as_str().contains('@') {
            return Err(wrong("a user in it says nothing to Consul"));
        }
        if authority.host().is_empty() {
            return Err(wrong("it has no host"));
        }
        if uri.path().len() > 1 || uri.query().is_some() {
            return Err(wrong("it has a path"));
        }
        // A port that is none is no port to the library, either.
        let has_port = authority.as_str() != authority.host();
        if has_port && authority.port_u16().is_none_or(|port| port == 0) {
            return Err(wrong("its port is outside 1-65535"));
        }
        Ok(Self {
            place: Place::Tcp {
                host: authority.host().to_owned(),
                port: authority.port_u16().unwrap_or(PORT),
                tls,
            },
        })
    }
}

impl fmt::Display for ConsulAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Tcp { host, port, tls } => {
                let scheme = if *tls { "https" } else { "http" };
                write!(f, "{scheme}://{host}:{port}")
            }
            Place::Unix(path) => write!(f, "unix://{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_as_consuls_clients_take_them() {
        for (text, expected) in [
            ("127.0.0.1:8500", "http://127.0.0.1:8500"),
            ("http://consul.example", "http://consul.example:8500"),
            ("https://[::1]:8501", "https://[::1]:8501"),
            ("http://10.0.0.1:80/", "http://10.0.0.1:80"),
            ("unix:///run/consul.sock", "unix:///run/consul.sock"),
        ] {
            let address: ConsulAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), expected);
        }
        let plain: ConsulAddress = "localhost:8501".parse().unwrap();
        assert_eq!(plain.with_tls().to_string(), "https://localhost:8501");
        assert_eq!(
            ConsulAddress::default().to_string(),
            "http://127.0.0.1:8500"
        );
    }

    #[test]
    fn what_is_no_address_is_refused_with_a_reason() {
        for (text, why) in [
            ("", "no URL"),
            ("ftp://a", "scheme"),
            ("http://a/ui", "path"),
            ("http://user@a", "user"),
            ("a:0", "port"),
            ("a:70000", ""),
            ("unix://run/consul.sock", "does not begin"),
            ("http://a b", "no URL"),
        ] {
            let error = text.parse::<ConsulAddress>().unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
