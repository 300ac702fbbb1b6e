//! Questions.

use std::{fmt, net::IpAddr, num::NonZeroU16, str::FromStr, sync::Arc};

use thiserror::Error;

use crate::{named::FromName as _, protocol::Protocol, service_id::ServiceId};

/// A question: who is behind this.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Query {
    /// The subject of the question.
    pub subject: Subject,
    /// The port; `None`: all of them. Of a service the service's port, not a node port.
    pub port: Option<NonZeroU16>,
    /// The protocol; `None`: all of them.
    pub protocol: Option<Protocol>,
}

/// The subject of a question.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    /// An address. An IPv4 address is never in the clothes of an IPv6 one.
    Address(IpAddr),
    /// A service, whatever addresses it has.
    Service(Arc<ServiceId>),
}

impl Query {
    /// A query for the targets behind `address`, at this port and of this protocol if they are
    /// given. An IPv4-mapped address is the IPv4 address inside.
    pub fn address(address: IpAddr, port: Option<NonZeroU16>, protocol: Option<Protocol>) -> Self {
        Self {
            subject: Subject::Address(address.to_canonical()),
            port,
            protocol,
        }
    }

    /// A query for the targets behind a service, at this port of it and of this protocol if they
    /// are given.
    pub const fn service(
        id: Arc<ServiceId>,
        port: Option<NonZeroU16>,
        protocol: Option<Protocol>,
    ) -> Self {
        Self {
            subject: Subject::Service(id),
            port,
            protocol,
        }
    }

    /// Returns whether the question is about this port and protocol, too.
    pub(crate) fn covers(&self, port: u16, protocol: Protocol) -> bool {
        self.port.is_none_or(|asked| asked.get() == port) && self.is_about(protocol)
    }

    /// Returns whether the question is about this protocol, too.
    pub(crate) fn is_about(&self, protocol: Protocol) -> bool {
        self.protocol.is_none_or(|asked| asked == protocol)
    }
}

/// A fault of the text of a question.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum QueryError {
    /// No address stands where one has to.
    #[error(
        "`{0}` is not an IP address, nor one with a port: 10.96.0.1, 10.96.0.1:80 or [fd00::1]:80"
    )]
    NotAnAddress(String),
    /// Port 0 is none.
    #[error("the port is 0")]
    ZeroPort,
    /// The text after the slash is no protocol.
    #[error("`{0}` is not a protocol, expected tcp, udp or sctp")]
    NotAProtocol(String),
}

/// `ADDRESS[:PORT][/PROTOCOL]`, with an IPv6 address in brackets where a port follows. The protocol
/// may be written small.
impl FromStr for Query {
    type Err = QueryError;

    fn from_str(text: &str) -> Result<Self, QueryError> {
        let (place, protocol) = match text.split_once('/') {
            None => (text, None),
            Some((place, name)) => {
                let known = Protocol::from_name(&name.to_ascii_uppercase());
                let protocol = known.ok_or_else(|| QueryError::NotAProtocol(name.to_owned()))?;
                (place, Some(protocol))
            }
        };
        let (address, port) = address_and_port(place)?;
        Ok(Self::address(address, port, protocol))
    }
}

fn address_and_port(text: &str) -> Result<(IpAddr, Option<NonZeroU16>), QueryError> {
    let not_an_address = || QueryError::NotAnAddress(text.to_owned());
    let in_brackets = |text: &str| {
        let inner = text.strip_prefix('[')?.strip_suffix(']')?;
        inner.parse().ok().filter(IpAddr::is_ipv6)
    };
    if let Some(address) = text.parse().ok().or_else(|| in_brackets(text)) {
        return Ok((address, None));
    }
    let (address, port) = text.rsplit_once(':').ok_or_else(not_an_address)?;
    let address = match address.parse() {
        Ok(IpAddr::V4(v4)) => Some(IpAddr::V4(v4)),
        _ => in_brackets(address),
    };
    let address = address.ok_or_else(not_an_address)?;
    let port: u16 = port.parse().map_err(|_| not_an_address())?;
    let port = NonZeroU16::new(port).ok_or(QueryError::ZeroPort)?;
    Ok((address, Some(port)))
}

/// As it is read: `10.96.0.1:80/TCP`, or `default/web:80/TCP` of a service.
impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            subject,
            port,
            protocol,
        } = self;
        match subject {
            Subject::Address(IpAddr::V6(v6)) if port.is_some() => write!(f, "[{v6}]")?,
            Subject::Address(address) => write!(f, "{address}")?,
            Subject::Service(id) => write!(f, "{id}")?,
        }
        if let Some(port) = port {
            write!(f, ":{port}")?;
        }
        if let Some(protocol) = protocol {
            write!(f, "/{protocol}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_read_as_it_is_shown() {
        for (text, shown) in [
            ("10.96.0.1", "10.96.0.1"),
            ("10.96.0.1:80", "10.96.0.1:80"),
            ("10.96.0.1:80/tcp", "10.96.0.1:80/TCP"),
            ("10.96.0.1/UDP", "10.96.0.1/UDP"),
            ("fd00::1", "fd00::1"),
            ("[fd00::1]", "fd00::1"),
            ("[fd00:0::1]:53/sctp", "[fd00::1]:53/SCTP"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
            ("[::ffff:192.0.2.1]:80", "192.0.2.1:80"),
        ] {
            let query: Query = text.parse().unwrap();
            assert_eq!(query.to_string(), shown);
            assert_eq!(shown.parse(), Ok(query));
        }
    }

    #[test]
    fn what_is_no_question_is_an_error_and_never_another_question() {
        let not_an_address = |text: &str| QueryError::NotAnAddress(text.to_owned());
        for (text, error) in [
            ("", not_an_address("")),
            ("web", not_an_address("web")),
            ("10.256.0.1", not_an_address("10.256.0.1")),
            ("10.0.0.1:", not_an_address("10.0.0.1:")),
            ("10.0.0.1:http", not_an_address("10.0.0.1:http")),
            ("10.0.0.1:65536", not_an_address("10.0.0.1:65536")),
            ("10.0.0.1:-1", not_an_address("10.0.0.1:-1")),
            ("[10.0.0.1]:80", not_an_address("[10.0.0.1]:80")),
            ("fe80::1%eth0", not_an_address("fe80::1%eth0")),
            ("[fe80::1%eth0]:80", not_an_address("[fe80::1%eth0]:80")),
            ("10.0.0.1:0", QueryError::ZeroPort),
            (
                "10.0.0.1:80/icmp",
                QueryError::NotAProtocol("icmp".to_owned()),
            ),
            ("10.0.0.1/24", QueryError::NotAProtocol("24".to_owned())),
        ] {
            assert_eq!(text.parse::<Query>(), Err(error), "{text}");
        }
    }
}
