//! Names under which the page is asked for. A page elsewhere whose name suddenly means this host (DNS
//! rebinding) asks under its own name, and gets nothing.

use std::{collections::BTreeSet, net::IpAddr};

use hyper::{HeaderMap, Uri, header::HOST, http::uri::Authority};

/// The names and addresses that are ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hosts {
    names: BTreeSet<String>,
    /// Address of the listener, if it has one.
    bound: Option<IpAddr>,
}

impl Hosts {
    /// Returns the names of a listener at this address, and these names.
    pub(super) fn new(bound: Option<IpAddr>, names: &[String]) -> Self {
        let names = names.iter().map(|name| plain(name));
        Self {
            names: names.chain(["localhost".to_owned()]).collect(),
            bound,
        }
    }

    /// Returns whether a request asks under one of ours, in whichever way it names it. The port does not count: it
    /// is another one behind a tunnel.
    pub(super) fn accept(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let mut hosts = headers.get_all(HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else {
            return false;
        };
        let host: Option<Authority> = host.to_str().ok().and_then(|text| text.parse().ok());
        host.is_some_and(|host| self.has(&host))
            && uri.authority().is_none_or(|authority| self.has(authority))
    }

    fn has(&self, authority: &Authority) -> bool {
        if authority.as_str().contains('@') {
            return false;
        }
        let host = plain(authority.host());
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        match bare.unwrap_or(&host).parse::<IpAddr>() {
            // An address is what it is, whichever name server was asked.
            Ok(ip) => {
                ip.is_loopback()
                    || self
                        .bound
                        .is_some_and(|bound| bound.is_unspecified() || bound == ip)
            }
            Err(_) => self.names.contains(&host),
        }
    }
}

/// A name as it is compared.
fn plain(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn accepts(hosts: &Hosts, host: &str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_str(host).unwrap());
        hosts.accept(&Uri::from_static("/"), &headers)
    }

    #[test]
    fn a_name_that_is_not_ours_is_refused() {
        let at =
            |bound: &str| Hosts::new(Some(bound.parse().unwrap()), &["Node-1.Example.".into()]);
        let (inside, outside, anywhere) = (at("127.0.0.1"), at("192.0.2.1"), at("::"));
        for (host, expected) in [
            ("127.0.0.1:9254", [true; 3]),
            ("127.0.0.1", [true; 3]),
            ("localhost:1", [true; 3]),
            ("LOCALHOST.:1", [true; 3]),
            ("[::1]:9254", [true; 3]),
            ("node-1.example:9254", [true; 3]),
            ("192.0.2.1:9254", [false, true, true]),
            ("192.0.2.2:9254", [false, false, true]),
            ("[fd00::1]:80", [false, false, true]),
            ("evil.example:9254", [false; 3]),
            ("localhost.evil.example", [false; 3]),
            ("127.0.0.1.evil.example", [false; 3]),
            ("user@localhost", [false; 3]),
            ("", [false; 3]),
        ] {
            let found = [&inside, &outside, &anywhere].map(|hosts| accepts(hosts, host));
            assert_eq!(found, expected, "{host}");
        }
    }

    #[test]
    fn a_request_says_one_host_and_no_other() {
        let hosts = Hosts::new(None, &[]);
        let ours = HeaderValue::from_static("localhost");
        let mut headers = HeaderMap::new();
        assert!(!hosts.accept(&Uri::from_static("/"), &headers));
        headers.append(HOST, ours.clone());
        assert!(hosts.accept(&Uri::from_static("/"), &headers));
        // The target of a request to a proxy.
        assert!(!hosts.accept(&Uri::from_static("http://evil.example/"), &headers));
        assert!(hosts.accept(&Uri::from_static("http://localhost:80/"), &headers));
        headers.append(HOST, ours);
        assert!(!hosts.accept(&Uri::from_static("/"), &headers));
    }
}
