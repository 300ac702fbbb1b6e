//! The probe whether a workload takes connections, as a kubelet does with a Pod's `readinessProbe`.

use std::{num::NonZeroU16, ops::RangeInclusive, time::Duration};

use hyper::{
    Uri,
    header::{HeaderMap, HeaderName, HeaderValue},
};

use super::external_workload_spec::{Header, HttpGet, ReadinessProbe, TcpSocket};

/// Defaults of a kubelet for a probe: seconds, and numbers of results in a row.
const PERIOD: u32 = 10;
const TIMEOUT: u32 = 1;
const SUCCESSES: u32 = 1;
const FAILURES: u32 = 3;

/// The bounds of the definition of our group.
const SECONDS: RangeInclusive<u32> = 1..=3600;
const TIMES: RangeInclusive<u32> = 1..=100;

/// A probe that can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Probe {
    /// Its action.
    pub(crate) action: Action,
    /// The port that is asked, of TCP.
    pub(crate) port: NonZeroU16,
    /// From the beginning of one look to that of the next.
    pub(crate) period: Duration,
    /// Longest time for an answer.
    pub(crate) timeout: Duration,
    /// So many good looks in a row make it ready, so many bad ones not ready.
    pub(crate) thresholds: Thresholds,
}

/// Action of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// A connection.
    Tcp,
    /// An answer with a status of 200 to 399.
    Http {
        /// Path of the request.
        path: Uri,
        /// Further headers.
        headers: HeaderMap,
    },
}

/// Numbers of results of one kind in a row that count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Thresholds {
    /// Good ones, 1 or more.
    pub(crate) success: u32,
    /// Bad ones, 1 or more.
    pub(crate) failure: u32,
}

impl TryFrom<ReadinessProbe> for Probe {
    type Error = String;

    fn try_from(probe: ReadinessProbe) -> Result<Self, String> {
        let ReadinessProbe {
            tcp_socket,
            http_get,
            period_seconds,
            timeout_seconds,
            success_threshold,
            failure_threshold,
        } = probe;
        let (action, port) = match (tcp_socket, http_get) {
            (Some(TcpSocket { port }), None) => (Action::Tcp, port),
            (None, Some(http)) => http_action(http)?,
            (None, None) => return Err("neither tcpSocket nor httpGet".to_owned()),
            (Some(_), Some(_)) => return Err("both tcpSocket and httpGet".to_owned()),
        };
        let port = NonZeroU16::new(port).ok_or("port: 0 is no port")?;
        let seconds = |name, given: Option<u32>, usual| {
            let seconds = within(name, given.unwrap_or(usual), &SECONDS)?;
            Ok::<_, String>(Duration::from_secs(seconds.into()))
        };
        let times = |name, given: Option<u32>, usual| within(name, given.unwrap_or(usual), &TIMES);
        Ok(Self {
            action,
            port,
            period: seconds("periodSeconds", period_seconds, PERIOD)?,
            timeout: seconds("timeoutSeconds", timeout_seconds, TIMEOUT)?,
            thresholds: Thresholds {
                success: times("successThreshold", success_threshold, SUCCESSES)?,
                failure: times("failureThreshold", failure_threshold, FAILURES)?,
            },
        })
    }
}

fn within(name: &str, number: u32, range: &RangeInclusive<u32>) -> Result<u32, String> {
    if range.contains(&number) {
        return Ok(number);
    }
    let (first, last) = (range.start(), range.end());
    Err(format!("{name}: {number} is not {first} to {last}"))
}

fn http_action(http: HttpGet) -> Result<(Action, u16), String> {
    let HttpGet {
        port,
        path,
        http_headers,
    } = http;
    let text = path.as_deref().unwrap_or("/");
    let path: Option<Uri> = text.parse().ok();
    let path = path.filter(|_| text.starts_with('/'));
    let path = path.ok_or_else(|| format!("httpGet.path: `{text}` is no path"))?;
    let mut headers = HeaderMap::new();
    for Header { name, value } in http_headers.unwrap_or_default() {
        let bad = || format!("httpGet.httpHeaders: `{name}: {value}` is no header");
        let name: HeaderName = name.parse().map_err(|_| bad())?;
        let value = HeaderValue::from_str(&value).map_err(|_| bad())?;
        headers.append(name, value);
    }
    Ok((Action::Http { path, headers }, port))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(probe: Value) -> Result<Probe, String> {
        let raw: ReadinessProbe =
            serde_json::from_value(probe).map_err(|error| error.to_string())?;
        raw.try_into()
    }

    #[test]
    fn what_a_probe_does_not_say_is_as_a_kubelet_has_it() {
        let probe = read(json!({ "tcpSocket": { "port": 5432 } })).unwrap();
        let expected = Probe {
            action: Action::Tcp,
            port: NonZeroU16::new(5432).unwrap(),
            period: Duration::from_secs(10),
            timeout: Duration::from_secs(1),
            thresholds: Thresholds {
                success: 1,
                failure: 3,
            },
        };
        assert_eq!(probe, expected);
        let probe = read(json!({ "httpGet": { "port": 80 }, "periodSeconds": 2 })).unwrap();
        assert_eq!(probe.period, Duration::from_secs(2));
        assert!(matches!(probe.action, Action::Http { path, .. } if path == "/"));
    }

    #[test]
    fn a_probe_that_cannot_be_made_is_refused() {
        let with = |name: &str, value: Value| {
            let mut probe = json!({ "tcpSocket": { "port": 1 } });
            probe[name] = value;
            probe
        };
        let http = |http: Value| json!({ "httpGet": http });
        let header = |name: &str, value: &str| {
            http(json!({ "port": 1, "httpHeaders": [{ "name": name, "value": value }] }))
        };
        for (probe, is_good) in [
            (json!({}), false),
            (with("httpGet", json!({ "port": 1 })), false),
            (with("periodSeconds", json!(1)), true),
            (with("periodSeconds", json!(0)), false),
            (with("periodSeconds", json!(3601)), false),
            (with("timeoutSeconds", json!(0)), false),
            (with("successThreshold", json!(100)), true),
            (with("successThreshold", json!(0)), false),
            (with("failureThreshold", json!(101)), false),
            (with("failureThreshold", json!(-1)), false),
            (json!({ "tcpSocket": { "port": 0 } }), false),
            (json!({ "tcpSocket": { "port": 65536 } }), false),
            (http(json!({ "port": 1, "path": "/a?b=c" })), true),
            (http(json!({ "port": 1, "path": "a" })), false),
            (http(json!({ "port": 1, "path": "/a b" })), false),
            (http(json!({ "path": "/" })), false),
            (header("Host", "db.example"), true),
            (header("a b", "c"), false),
            (header("a", "b\nc"), false),
        ] {
            let found = read(probe.clone());
            assert_eq!(found.is_ok(), is_good, "{probe}: {found:?}");
        }
    }
}
