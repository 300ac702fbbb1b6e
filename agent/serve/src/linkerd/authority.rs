//! The path of a request: what it is about.

use std::{
    net::{IpAddr, Ipv6Addr},
    num::NonZeroU16,
    sync::Arc,
};

use shunt_model::{Escaped, Protocol, Query, ServiceId};
use thiserror::Error;
use tonic::Status;

/// The port of a path that has none.
const HTTP: NonZeroU16 = NonZeroU16::new(80).unwrap();

/// Destination that a request is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Destination {
    /// An address. An IPv4 address is never in the clothes of an IPv6 one.
    Address {
        /// The address.
        ip: IpAddr,
        /// The port there.
        port: NonZeroU16,
    },
    /// A service, or one of its instances.
    Name(Name),
}

/// `web.default.svc.cluster.local:80`, or `web-0.web.default.svc.cluster.local:80`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Name {
    /// The hostname of the endpoint that alone is meant.
    pub(super) instance: Option<Box<str>>,
    pub(super) service: Arc<ServiceId>,
    pub(super) port: NonZeroU16,
}

/// A path is about nothing that there can be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("Invalid authority: {0}")]
pub(super) struct InvalidAuthority(String);

impl From<InvalidAuthority> for Status {
    fn from(error: InvalidAuthority) -> Self {
        Self::invalid_argument(Escaped(&error).to_string())
    }
}

impl Destination {
    /// Returns the destination of `path` in a cluster of this domain.
    pub(super) fn of(path: &str, cluster_domain: &str) -> Result<Self, InvalidAuthority> {
        let invalid = || InvalidAuthority(path.to_owned());
        let (host, port) = host_and_port(path).ok_or_else(invalid)?;
        let ip = match host {
            Host::Bracketed(v6) => Some(IpAddr::V6(v6)),
            Host::Plain(host) => host.parse().ok(),
        };
        if let Some(ip) = ip {
            let ip = ip.to_canonical();
            return Ok(Self::Address { ip, port });
        }
        let Host::Plain(host) = host else {
            return Err(invalid());
        };
        let (instance, service) = service(host, cluster_domain).ok_or_else(invalid)?;
        Ok(Self::Name(Name {
            instance: instance.map(Into::into),
            service: Arc::new(service),
            port,
        }))
    }

    /// The question that is to be followed. What goes through linkerd's proxies is TCP. Of a service all
    /// ports are asked for: at one that it does not declare, its endpoints have it perhaps.
    pub(super) fn query(&self) -> Query {
        match self {
            Self::Address { ip, port } => Query::address(*ip, Some(*port), Some(Protocol::Tcp)),
            Self::Name(Name { service, .. }) => Query::service(Arc::clone(service), None, None),
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Host<'a> {
    Bracketed(Ipv6Addr),
    Plain(&'a str),
}

/// As Go's `net.SplitHostPort`, but that a path without a colon has the port of HTTP.
fn host_and_port(path: &str) -> Option<(Host<'_>, NonZeroU16)> {
    let Some((host, port)) = path.rsplit_once(':') else {
        return Some((Host::Plain(path), HTTP));
    };
    let host = if let Some(inside) = host.strip_prefix('[') {
        Host::Bracketed(inside.strip_suffix(']')?.parse().ok()?)
    } else if host.contains(':') {
        return None;
    } else {
        Host::Plain(host)
    };
    Some((host, port.parse().ok()?))
}

/// The instance, if there is one, and the service of a name.
fn service<'a>(host: &'a str, cluster_domain: &str) -> Option<(Option<&'a str>, ServiceId)> {
    let name = host.strip_suffix(cluster_domain)?.strip_suffix(".svc.")?;
    let parts: Vec<&str> = name.split('.').collect();
    if parts.iter().any(|part| part.is_empty()) {
        return None;
    }
    match parts[..] {
        [service, namespace] => Some((None, ServiceId::new(namespace, service))),
        [instance, service, namespace] => {
            Some((Some(instance), ServiceId::new(namespace, service)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(path: &str) -> Result<Destination, InvalidAuthority> {
        Destination::of(path, "cluster.local")
    }

    #[test]
    fn an_address_is_read_with_its_port() {
        for (path, ip, port) in [
            ("10.0.0.1:8080", "10.0.0.1", 8080),
            ("10.0.0.1", "10.0.0.1", 80),
            ("[fd00::1]:443", "fd00::1", 443),
            ("[0:0:0:0:0:0:0:1]:1", "::1", 1),
            ("[::ffff:10.0.0.1]:80", "10.0.0.1", 80),
            ("10.0.0.1:65535", "10.0.0.1", 65535),
        ] {
            let expected = Destination::Address {
                ip: ip.parse().unwrap(),
                port: NonZeroU16::new(port).unwrap(),
            };
            assert_eq!(parse(path), Ok(expected), "{path}");
        }
    }

    #[test]
    fn a_name_is_that_of_a_service_or_of_its_instance() {
        for (path, instance, service, port) in [
            ("web.shop.svc.cluster.local", None, "web", 80),
            ("web.shop.svc.cluster.local:8080", None, "web", 8080),
            (
                "db-0.db.shop.svc.cluster.local:5432",
                Some("db-0"),
                "db",
                5432,
            ),
        ] {
            let expected = Destination::Name(Name {
                instance: instance.map(Into::into),
                service: Arc::new(ServiceId::new("shop", service)),
                port: NonZeroU16::new(port).unwrap(),
            });
            assert_eq!(parse(path), Ok(expected), "{path}");
        }
        let other = Destination::of("web.shop.svc.example.org:80", "example.org");
        assert!(matches!(other, Ok(Destination::Name(_))));
    }

    #[test]
    fn what_is_neither_is_an_error() {
        for path in [
            "",
            ":80",
            "10.0.0.1:0",
            "10.0.0.1:-1",
            "10.0.0.1:65536",
            "10.0.0.1:http",
            "10.0.0.1:",
            "10.256.0.1:80",
            "2001:db8::1",
            "[2001:db8::1]",
            "[10.0.0.1]:80",
            "[web.shop.svc.cluster.local]:80",
            "fe80::1%eth0",
            "[fe80::1%eth0]:80",
            "web",
            "web.shop:80",
            "web.shop.svc",
            "shop.svc.cluster.local",
            "svc.cluster.local",
            "a.db-0.db.shop.svc.cluster.local",
            "web.shop.pod.cluster.local",
            "web.shop.svc.cluster.local.",
            "web.shop.svc.example.org",
            "web.shop.svcxcluster.local",
            ".shop.svc.cluster.local",
            "web..svc.cluster.local",
        ] {
            let invalid = InvalidAuthority(path.to_owned());
            assert_eq!(parse(path), Err(invalid), "{path}");
        }
    }
}
