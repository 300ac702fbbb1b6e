//! Admission of requests: from programs of this host, and from no page that a browser shows.

use std::net::IpAddr;

use hyper::{
    HeaderMap,
    header::{HOST, HeaderName, HeaderValue, ORIGIN},
};

/// Header by which browsers name the source of a request.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Returns why a request is not answered, if it is not. A foreign page, in a browser of this host, gets
/// to the port as well as a program does: it shows by what browsers add to its requests, and by the name
/// of its own host, which it may have any resolver give this host's address.
pub(super) fn refused(headers: &HeaderMap, is_tcp: bool) -> Option<&'static str> {
    let site = headers.get(FETCH_SITE).map(HeaderValue::as_bytes);
    if headers.contains_key(ORIGIN) || site.is_some_and(|site| site != b"none") {
        return Some("pages in browsers are not answered");
    }
    let host = headers.get(HOST).map(|host| host.to_str());
    match host {
        // Those of HTTP/1.0 are no browsers of these days.
        None => None,
        Some(Ok(host)) if !is_tcp || is_of_this_host(host) => None,
        Some(_) => Some("Host must be localhost or an IP address"),
    }
}

/// Returns whether a `Host` names this host, without asking anybody.
fn is_of_this_host(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    // An address of IPv6 without brackets has colons, and no port.
    let is_address = [bare.unwrap_or(name), host].map(|text| text.parse::<IpAddr>().is_ok());
    name.is_empty() || is_address.contains(&true) || name.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(lines: &[(&'static str, &'static str)], is_tcp: bool) -> bool {
        let lines = lines.iter().map(|(name, value)| {
            let name = HeaderName::from_static(name);
            (name, value.parse().unwrap())
        });
        refused(&lines.collect(), is_tcp).is_none()
    }

    #[test]
    fn programs_are_answered_and_pages_are_not() {
        for (lines, is_answered) in [
            (&[][..], true),
            (&[("host", "127.0.0.1:8500")], true),
            (&[("host", "[::1]:8500")], true),
            (&[("host", "::1")], true),
            (&[("host", "LocalHost:8500")], true),
            (&[("host", "localhost")], true),
            (&[("host", "evil.example:8500")], false),
            (&[("host", "localhost.evil.example")], false),
            (&[("host", "127.0.0.1:8500"), ("origin", "null")], false),
            (
                &[("host", "127.0.0.1:8500"), ("sec-fetch-site", "cross-site")],
                false,
            ),
            // A user typed the address.
            (
                &[("host", "127.0.0.1:8500"), ("sec-fetch-site", "none")],
                true,
            ),
        ] {
            assert_eq!(verdict(lines, true), is_answered, "{lines:?}");
        }
        assert!(
            verdict(&[("host", "any")], false),
            "a socket's name is its path"
        );
    }
}
