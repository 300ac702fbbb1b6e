//! Filter for connections.

use std::{
    net::{IpAddr, SocketAddr},
    num::NonZeroU16,
    str::FromStr,
};

use ipnet::IpNet;

use crate::{
    proto,
    view::{
        connection::{Connection, ConnectionState, End},
        error::BadFilter,
        protocol::ProtocolNumber,
    },
};

/// A filter: a connection matches if it meets every field that is set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConnectionFilter {
    /// Addresses and port of the client.
    pub client: Option<Place>,
    /// Addresses and port of the frontend that the client connected to.
    pub frontend: Option<Place>,
    /// Addresses and port of the backend that serves it.
    pub backend: Option<Place>,
    /// Its protocol.
    pub protocol: Option<ProtocolNumber>,
    /// It is in one of these states; none: in any.
    pub states: Vec<ConnectionState>,
    /// Neither side has sent a packet for so many seconds, or longer.
    pub idle_seconds: u32,
}

/// Addresses and port of one end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Its address is one of these.
    pub range: IpNet,
    /// Its port; `None`: any.
    pub port: Option<NonZeroU16>,
}

impl ConnectionFilter {
    /// Returns whether every connection is meant.
    pub fn is_all(&self) -> bool {
        *self == Self::default()
    }

    /// Returns whether this connection is meant.
    pub fn takes(&self, connection: &Connection) -> bool {
        let Self {
            client,
            frontend,
            backend,
            protocol,
            states,
            idle_seconds,
        } = self;
        let is_at =
            |place: &Option<Place>, end: End| place.is_none_or(|place| place.has(end.ip, end.port));
        is_at(client, connection.client)
            && is_at(frontend, connection.frontend)
            && is_at(backend, connection.backend)
            && protocol.is_none_or(|protocol| protocol == connection.protocol)
            && (states.is_empty() || states.contains(&connection.state))
            && connection.idle_seconds >= *idle_seconds
    }
}

impl Place {
    /// Returns whether this address and port are there.
    pub fn has(&self, address: IpAddr, port: u16) -> bool {
        let Self {
            range,
            port: wanted,
        } = self;
        range.contains(&address) && wanted.is_none_or(|wanted| wanted.get() == port)
    }
}

impl FromStr for Place {
    type Err = BadFilter;

    fn from_str(text: &str) -> Result<Self, BadFilter> {
        let range = |text: &str| {
            let bare = text
                .strip_prefix('[')
                .and_then(|text| text.strip_suffix(']'));
            let text = bare.unwrap_or(text);
            text.parse::<IpAddr>()
                .map(IpNet::from)
                .or_else(|_| text.parse::<IpNet>())
        };
        if let Ok(range) = range(text) {
            return Ok(Self { range, port: None });
        }
        let bad = || BadFilter::NotAPlace(text.to_owned());
        if let Ok(address) = text.parse::<SocketAddr>() {
            let port = NonZeroU16::new(address.port()).ok_or_else(bad)?;
            return Ok(Self {
                range: address.ip().into(),
                port: Some(port),
            });
        }
        let (place, port) = text.rsplit_once(':').ok_or_else(bad)?;
        let range = range(place).map_err(|_| bad())?;
        if range.addr().is_ipv6() && !place.starts_with('[') {
            return Err(bad());
        }
        Ok(Self {
            range,
            port: Some(port.parse().map_err(|_| bad())?),
        })
    }
}

impl From<ConnectionFilter> for proto::ConnectionFilter {
    fn from(filter: ConnectionFilter) -> Self {
        let ConnectionFilter {
            client,
            frontend,
            backend,
            protocol,
            states,
            idle_seconds,
        } = filter;
        let states = states.into_iter().map(proto::connection::State::from);
        Self {
            client: client.map(Into::into),
            frontend: frontend.map(Into::into),
            backend: backend.map(Into::into),
            protocol: ProtocolNumber::meant(protocol),
            states: states.map(Into::into).collect(),
            idle_seconds,
        }
    }
}

impl TryFrom<proto::ConnectionFilter> for ConnectionFilter {
    type Error = BadFilter;

    fn try_from(filter: proto::ConnectionFilter) -> Result<Self, BadFilter> {
        let proto::ConnectionFilter {
            client,
            frontend,
            backend,
            protocol,
            states,
            idle_seconds,
        } = filter;
        let states = states.into_iter();
        let states = states
            .map(|state| ConnectionState::of_message(state).map_err(|_| BadFilter::State(state)));
        Ok(Self {
            client: client.map(Place::try_from).transpose()?,
            frontend: frontend.map(Place::try_from).transpose()?,
            backend: backend.map(Place::try_from).transpose()?,
            protocol: ProtocolNumber::of_meant(protocol)?,
            states: states.collect::<Result<_, _>>()?,
            idle_seconds,
        })
    }
}

impl From<Place> for proto::Place {
    fn from(place: Place) -> Self {
        let Place { range, port } = place;
        Self {
            range: range.to_string(),
            port: port.map(|port| port.get().into()),
        }
    }
}

impl TryFrom<proto::Place> for Place {
    type Error = BadFilter;

    fn try_from(place: proto::Place) -> Result<Self, BadFilter> {
        let proto::Place { range, port } = place;
        let place: Self = range.parse()?;
        if place.port.is_some() {
            return Err(BadFilter::NotAPlace(range));
        }
        let port = port.map(|number| {
            let port = u16::try_from(number).ok().and_then(NonZeroU16::new);
            port.ok_or(BadFilter::Port(number))
        });
        Ok(Self {
            port: port.transpose()?,
            ..place
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection() -> Connection {
        let end = |ip: [u8; 4], port| End {
            ip: ip.into(),
            port,
        };
        Connection {
            protocol: ProtocolNumber(6),
            client: end([10, 1, 1, 5], 40_000),
            frontend: end([10, 96, 0, 10], 80),
            backend: end([10, 1, 1, 3], 8080),
            state: ConnectionState::Established,
            idle_seconds: 10,
            snat_source: None,
        }
    }

    #[test]
    fn a_place_is_an_address_or_a_range_with_or_without_a_port() {
        for (text, range, port) in [
            ("10.1.1.5", "10.1.1.5/32", None),
            ("10.1.0.0/16", "10.1.0.0/16", None),
            ("10.1.1.5:80", "10.1.1.5/32", Some(80)),
            ("10.1.0.0/16:80", "10.1.0.0/16", Some(80)),
            ("fd00::1", "fd00::1/128", None),
            ("[fd00::1]:80", "fd00::1/128", Some(80)),
            ("fd00::/8", "fd00::/8", None),
            ("[fd00::/8]:80", "fd00::/8", Some(80)),
        ] {
            let place = Place {
                range: range.parse().unwrap(),
                port: port.and_then(NonZeroU16::new),
            };
            assert_eq!(text.parse(), Ok(place), "{text}");
        }
        for text in [
            "",
            "web",
            "10.1.1.5:",
            "10.1.1.5:0",
            "10.1.1.5:65536",
            "10.1.1.0/33",
        ] {
            let bad = BadFilter::NotAPlace(text.to_owned());
            assert_eq!(text.parse::<Place>(), Err(bad), "{text}");
        }
    }

    #[test]
    fn a_connection_is_meant_if_it_is_all_that_is_set() {
        let place = |text: &str| Some(text.parse().unwrap());
        let of = |set: &dyn Fn(&mut ConnectionFilter)| {
            let mut filter = ConnectionFilter::default();
            set(&mut filter);
            let message = proto::ConnectionFilter::from(filter.clone());
            assert_eq!(ConnectionFilter::try_from(message), Ok(filter.clone()));
            filter.takes(&connection())
        };
        assert!(of(&|_| {}));
        assert!(of(&|f| f.client = place("10.1.0.0/16")));
        assert!(!of(&|f| f.client = place("10.2.0.0/16")));
        assert!(of(&|f| f.frontend = place("10.96.0.10:80")));
        assert!(!of(&|f| f.frontend = place("10.96.0.10:81")));
        assert!(of(&|f| f.backend = place("10.1.1.3")));
        assert!(!of(&|f| f.backend = place("fd00::/8")));
        assert!(!of(&|f| f.protocol = Some(ProtocolNumber(17))));
        assert!(of(&|f| f.states = vec![ConnectionState::Established]));
        assert!(!of(&|f| f.states = vec![ConnectionState::Closed]));
        assert!(of(&|f| f.idle_seconds = 10));
        assert!(!of(&|f| f.idle_seconds = 11));
    }
}
