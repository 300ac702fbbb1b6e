//! An endpoint and a service, as a command line names them.

use std::{net::IpAddr, num::NonZeroU16, str::FromStr};

use shunt_model::{Query, ServiceId, Subject};

/// Place of an endpoint.
#[derive(Debug, Clone, Copy)]
pub struct EndpointPlace {
    /// Its address.
    pub ip: IpAddr,
    /// Its port; `None`: each.
    pub port: Option<NonZeroU16>,
}

impl FromStr for EndpointPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let query: Query = text.parse().map_err(|error| format!("{error}"))?;
        match query {
            Query {
                subject: Subject::Address(ip),
                port,
                protocol: None,
            } => Ok(Self { ip, port }),
            _ => Err("an endpoint is an address, or an address and a port".to_owned()),
        }
    }
}

/// A service by its name.
#[derive(Debug, Clone)]
pub struct ServiceName(pub ServiceId);

impl FromStr for ServiceName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => {
                Ok(Self(ServiceId::new(namespace, name)))
            }
            _ => Err("a service is NAMESPACE/NAME".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_an_address_and_maybe_a_port() {
        let place: EndpointPlace = "10.1.1.3:8080".parse().unwrap();
        assert_eq!(place.port, NonZeroU16::new(8080));
        let place: EndpointPlace = "[fd00::1]".parse().unwrap();
        assert_eq!((place.ip.is_ipv6(), place.port), (true, None));
        for text in ["web", "10.1.1.3:0", "10.1.1.3:80/tcp", "10.1.1.0/24"] {
            assert!(text.parse::<EndpointPlace>().is_err(), "{text}");
        }
        assert!("web".parse::<ServiceName>().is_err());
        assert!("default/web".parse::<ServiceName>().is_ok());
    }
}
