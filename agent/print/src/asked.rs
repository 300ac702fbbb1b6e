//! The subject of a lookup.

use std::{num::NonZeroU16, str::FromStr, sync::Arc};

use shunt_api::proto::{self, LookupRequest};
use shunt_model::{Protocol, Query, QueryError, ServiceId, Subject};

/// An address or a service, with a port and a protocol or without.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked(pub Query);

impl Asked {
    /// Returns it as a message.
    pub fn request(&self) -> LookupRequest {
        let Self(Query {
            subject,
            port,
            protocol,
        }) = self;
        let (ip, service) = match subject {
            Subject::Address(address) => (address.to_string(), None),
            Subject::Service(id) => {
                let service = proto::ServiceId {
                    namespace: id.namespace.to_string(),
                    name: id.name.to_string(),
                };
                (String::new(), Some(service))
            }
        };
        LookupRequest {
            ip,
            port: port.map(|port| port.get().into()),
            protocol: protocol.map_or(0, |protocol| protocol.number().into()),
            service,
        }
    }
}

impl FromStr for Asked {
    type Err = QueryError;

    /// A service has its namespace before it. No address has a slash but before its protocol, and no
    /// namespace a dot or a colon.
    fn from_str(text: &str) -> Result<Self, QueryError> {
        let named = text
            .split_once('/')
            .filter(|(namespace, name)| !namespace.is_empty() && !name.is_empty())
            .filter(|(namespace, _)| !namespace.contains(['.', ':', '[', ']']));
        match named {
            Some((namespace, rest)) => service(namespace, rest).map(Self),
            None => text.parse().map(Self),
        }
    }
}

fn service(namespace: &str, rest: &str) -> Result<Query, QueryError> {
    let (rest, protocol) = match rest.rsplit_once('/') {
        None => (rest, None),
        Some((rest, name)) => {
            let known = match &*name.to_ascii_lowercase() {
                "tcp" => Protocol::Tcp,
                "udp" => Protocol::Udp,
                "sctp" => Protocol::Sctp,
                _ => return Err(QueryError::NotAProtocol(name.to_owned())),
            };
            (rest, Some(known))
        }
    };
    // A service of Consul may have a colon in its name, and words behind it.
    let numbered = rest
        .rsplit_once(':')
        .and_then(|(name, port)| Some((name, port.parse::<u16>().ok()?)));
    let (name, port) = match numbered {
        None => (rest, None),
        Some((name, port)) => {
            let port = NonZeroU16::new(port).ok_or(QueryError::ZeroPort)?;
            (name, Some(port))
        }
    };
    let id = Arc::new(ServiceId::new(namespace, name));
    Ok(Query::service(id, port, protocol))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_asked_about_by_its_namespace_and_name() {
        for (text, shown) in [
            ("default/web", "default/web"),
            ("default/web:80", "default/web:80"),
            ("default/dns:53/udp", "default/dns:53/UDP"),
            ("default/dns/udp", "default/dns/UDP"),
            ("consul/api:admin", "consul/api:admin"),
            ("consul/api:admin:80", "consul/api:admin:80"),
            ("10.96.0.1:80/tcp", "10.96.0.1:80/TCP"),
            ("[fd00::1]:53/udp", "[fd00::1]:53/UDP"),
            ("fd00::1", "fd00::1"),
        ] {
            let Asked(query) = text.parse().unwrap();
            assert_eq!(query.to_string(), shown, "{text}");
        }
        assert_eq!("default/web:0".parse::<Asked>(), Err(QueryError::ZeroPort));
        for text in ["web", "", "/web", "10.0.0.1/24", "default/"] {
            assert!(text.parse::<Asked>().is_err(), "{text}");
        }
    }
}
