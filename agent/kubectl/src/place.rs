//! A place that may be named by a pod.

use std::{fmt, net::IpAddr, str::FromStr};

/// Begin of the name of a pod.
const POD: &str = "pod/";

/// A place as the command line names it: by itself, or by the pod that has the address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Named<T> {
    /// `pod/NAMESPACE/NAME`, and what stands behind an address: `:8080`, `/udp`.
    Pod(PodPlace),
    /// All else.
    Plain(T),
}

/// A pod, and what stands behind its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PodPlace {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// `:8080`, `/udp`, `:53/udp` or nothing.
    rest: String,
}

impl PodPlace {
    /// Returns whether no port is named.
    pub(crate) fn is_whole(&self) -> bool {
        !self.rest.starts_with(':')
    }

    /// Returns the place at this address of the pod.
    ///
    /// # Errors
    ///
    /// The text behind it is wrong.
    pub(crate) fn at<T: FromStr<Err: fmt::Display>>(&self, ip: IpAddr) -> Result<T, String> {
        let rest = &self.rest;
        let text = match ip {
            IpAddr::V6(ip) if !self.is_whole() => format!("[{ip}]{rest}"),
            ip => format!("{ip}{rest}"),
        };
        text.parse().map_err(|error: T::Err| error.to_string())
    }
}

impl fmt::Display for PodPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            namespace,
            name,
            rest: _,
        } = self;
        write!(f, "{POD}{namespace}/{name}")
    }
}

impl<T: FromStr<Err: fmt::Display>> FromStr for Named<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(named) = text.strip_prefix(POD) else {
            return text
                .parse()
                .map(Self::Plain)
                .map_err(|error| error.to_string());
        };
        let (namespace, name) = named.split_once('/').unwrap_or_default();
        let end = name.find([':', '/']).unwrap_or(name.len());
        let (name, rest) = name.split_at(end);
        if namespace.is_empty() || name.is_empty() {
            return Err("a pod is pod/NAMESPACE/NAME".to_owned());
        }
        let pod = PodPlace {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            rest: rest.to_owned(),
        };
        // An error of the rest needs no cluster.
        pod.at::<T>(IpAddr::from([0, 0, 0, 0]))?;
        Ok(Self::Pod(pod))
    }
}

#[cfg(test)]
mod tests {
    use shunt_api::view::Place;
    use shunt_print::{asked::Asked, named::EndpointPlace};

    use super::*;

    fn pod<T: FromStr<Err: fmt::Display> + fmt::Debug>(text: &str) -> PodPlace {
        match text.parse::<Named<T>>() {
            Ok(Named::Pod(pod)) => pod,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn a_pod_stands_where_an_address_does() {
        let four = IpAddr::from([10, 1, 1, 3]);
        let six: IpAddr = "fd00::3".parse().unwrap();
        let web = pod::<EndpointPlace>("pod/shop/web-1:8080");
        assert_eq!(web.to_string(), "pod/shop/web-1");
        for ip in [four, six] {
            let place: EndpointPlace = web.at(ip).unwrap();
            assert_eq!((place.ip, place.port.map(u16::from)), (ip, Some(8080)));
        }
        let dns = pod::<Asked>("pod/kube-system/dns-0:53/udp");
        assert_eq!(
            dns.at::<Asked>(six).unwrap(),
            "[fd00::3]:53/udp".parse().unwrap()
        );
        let whole = pod::<Place>("pod/shop/web-1");
        assert!(whole.is_whole() && !web.is_whole());
        assert_eq!(whole.at::<Place>(six).unwrap(), "fd00::3".parse().unwrap());
    }

    #[test]
    fn errors_of_a_pods_place_are_those_of_an_addresss() {
        for text in [
            "pod/web",
            "pod//web",
            "pod/shop/",
            "pod/shop/web:0",
            "pod/shop/web/tcp",
        ] {
            assert!(text.parse::<Named<EndpointPlace>>().is_err(), "{text}");
        }
        assert!("10.1.1.3:8080".parse::<Named<EndpointPlace>>().is_ok());
        assert!("web".parse::<Named<EndpointPlace>>().is_err());
    }
}
