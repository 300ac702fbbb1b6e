//! A check as it is defined.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use crate::local::{
    definition::fields::{Fields, Malformed},
    state::status::Status,
};

/// The most often that something is asked.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

/// Time for an answer: the default, and the longest.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The least after which a service is deregistered for being critical, as Consul has it.
const MIN_DEREGISTER: Duration = Duration::from_mins(1);

/// The longest of any duration: what is added to a time stays a time.
const LONGEST: Duration = Duration::from_hours(24 * 366);

/// A check as it is defined. Its service and its id come from its place.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CheckDefinition {
    /// Its own id; empty: it gets one.
    pub(crate) id: String,
    /// Its name; empty: it gets one.
    pub(crate) name: String,
    /// For people.
    pub(crate) notes: String,
    /// The service that it is a check of, where that is not clear; empty: the node's.
    pub(crate) service_id: String,
    /// Its first status, in Consul's words; empty: critical.
    pub(crate) status: String,
    ttl: Duration,
    interval: Duration,
    timeout: Duration,
    tcp: String,
    http: String,
    method: String,
    headers: BTreeMap<String, Vec<String>>,
    body: String,
    grpc: String,
    grpc_uses_tls: bool,
    alias_node: String,
    alias_service: String,
    /// Its kind, if it is one that Consul runs and this agent does not.
    foreign: Option<&'static str>,
    deregister_after: Duration,
    success_before_passing: u32,
    failures_before_critical: u32,
}

/// Source of a check's verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Probe {
    /// A client reports it, at least so often.
    Ttl(Duration),
    /// A connection is made.
    Tcp {
        /// `host:port`.
        address: String,
        /// Its pace.
        pace: Pace,
    },
    /// A request is answered.
    Http {
        /// `http://…`.
        url: String,
        /// GET by default.
        method: String,
        /// Header lines beside those that are always there.
        headers: BTreeMap<String, Vec<String>>,
        /// Body of the request.
        body: String,
        /// Its pace.
        pace: Pace,
    },
    /// A server of gRPC is asked for its health.
    Grpc {
        /// `host:port`, or `host:port/service`.
        target: String,
        /// Its pace.
        pace: Pace,
    },
    /// As the checks of another service are, or the node's if there is none.
    Alias(String),
    /// Never anything but critical: a service in maintenance.
    Maintenance,
}

/// Interval of the requests, and rules for their answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pace {
    /// From one question to the next.
    pub(crate) interval: Duration,
    /// Longest time for an answer.
    pub(crate) timeout: Duration,
    /// So many good answers in a row make it passing, after the first one of them.
    pub(crate) success_before_passing: u32,
    /// Likewise bad ones critical.
    pub(crate) failures_before_critical: u32,
}

impl Probe {
    /// Its name, as Consul has it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Ttl(_) => "ttl",
            Self::Tcp { .. } => "tcp",
            Self::Http { .. } => "http",
            Self::Grpc { .. } => "grpc",
            Self::Alias(_) => "alias",
            Self::Maintenance => "maintenance",
        }
    }

    /// Returns its pace; `None`: it sends no requests.
    pub(crate) const fn pace(&self) -> Option<Pace> {
        match self {
            Self::Tcp { pace, .. } | Self::Http { pace, .. } | Self::Grpc { pace, .. } => {
                Some(*pace)
            }
            Self::Ttl(_) | Self::Alias(_) | Self::Maintenance => None,
        }
    }
}

impl CheckDefinition {
    /// One that connects to `address` at this interval.
    pub(crate) fn tcp(name: String, address: String, interval: Duration) -> Self {
        Self {
            name,
            tcp: address,
            interval,
            ..Self::default()
        }
    }

    /// One that is as the checks of `service` are.
    pub(crate) fn alias(name: String, service: String) -> Self {
        Self {
            name,
            alias_service: service,
            ..Self::default()
        }
    }

    /// Reads it.
    ///
    /// # Errors
    ///
    /// A field is malformed or unknown.
    pub fn read(mut fields: Fields) -> Result<Self, Malformed> {
        let own_id = fields.text("ID")?;
        let check_id = fields.text("CheckID")?;
        let foreign = foreign(&mut fields)?;
        let success = count(&mut fields, "SuccessBeforePassing")?;
        let failures = count(&mut fields, "FailuresBeforeCritical")?;
        // Nothing is protected by tokens here, and no output is longer than a line.
        fields.text("Token")?;
        fields.number("OutputMaxSize")?;
        let definition = Self {
            id: if check_id.is_empty() {
                own_id
            } else {
                check_id
            },
            name: fields.text("Name")?,
            notes: fields.text("Notes")?,
            service_id: fields.text("ServiceID")?,
            status: fields.text("Status")?,
            ttl: fields.duration("TTL")?.min(LONGEST),
            interval: fields.duration("Interval")?.min(LONGEST),
            timeout: fields.duration("Timeout")?,
            tcp: fields.text("TCP")?,
            http: fields.text("HTTP")?,
            method: fields.text("Method")?,
            headers: headers(&mut fields)?,
            body: fields.text("Body")?,
            grpc: fields.text("GRPC")?,
            grpc_uses_tls: fields.switch("GRPCUseTLS")?,
            alias_node: fields.text("AliasNode")?,
            alias_service: fields.text("AliasService")?,
            foreign,
            deregister_after: fields.duration("DeregisterCriticalServiceAfter")?,
            success_before_passing: success,
            failures_before_critical: failures,
        };
        fields.finish()?;
        Ok(definition)
    }

    /// Returns its first status.
    ///
    /// # Errors
    ///
    /// It has a text that is no status of a check.
    pub(crate) fn first_status(&self) -> Result<Status, ()> {
        match self.status.as_str() {
            "" => Ok(Status::Critical),
            text => Status::from_name(text).ok_or(()),
        }
    }

    /// Returns the source of its verdict, on the node of this name.
    ///
    /// # Errors
    ///
    /// It has too little, too much, or what is not done here; in Consul's words where it has any.
    pub(crate) fn probe(&self, node: &str) -> Result<Probe, String> {
        let is_asked = [&self.tcp, &self.http, &self.grpc]
            .iter()
            .any(|it| !it.is_empty());
        let is_alias = !self.alias_node.is_empty() || !self.alias_service.is_empty();
        if let Some(foreign) = self.foreign {
            return Err(format!(
                "{foreign} checks are not run here: use TCP, HTTP, GRPC or TTL"
            ));
        }
        let refused = match () {
            () if !self.interval.is_zero() && !self.ttl.is_zero() => {
                "Interval and TTL cannot both be specified"
            }
            () if is_asked && self.interval.is_zero() => {
                "Interval must be > 0 for Script, HTTP, or TCP checks"
            }
            () if is_asked && is_alias => "Interval cannot be set for Alias checks",
            () if is_alias && !self.ttl.is_zero() => "TTL must be not be set for Alias checks",
            () if !is_asked && !is_alias && self.ttl.is_zero() => "TTL must be > 0 for TTL checks",
            () if is_alias && !["", node].contains(&self.alias_node.as_str()) => {
                "AliasNode must be this node: nothing is known of others here"
            }
            () => return self.sound_probe(is_alias),
        };
        Err(refused.to_owned())
    }

    fn sound_probe(&self, is_alias: bool) -> Result<Probe, String> {
        if is_alias {
            return Ok(Probe::Alias(self.alias_service.clone()));
        }
        if !self.ttl.is_zero() {
            return Ok(Probe::Ttl(self.ttl));
        }
        let timeout = if self.timeout.is_zero() {
            TIMEOUT
        } else {
            self.timeout.min(TIMEOUT)
        };
        let pace = Pace {
            interval: self.interval.max(MIN_INTERVAL),
            timeout,
            success_before_passing: self.success_before_passing,
            failures_before_critical: self.failures_before_critical,
        };
        if self.http.is_empty() && self.tcp.is_empty() {
            if self.grpc_uses_tls {
                let reason = "gRPC is not checked over TLS here: use TCP for what speaks TLS";
                return Err(reason.to_owned());
            }
            let target = self.grpc.clone();
            return Ok(Probe::Grpc { target, pace });
        }
        if self.http.is_empty() {
            let address = self.tcp.clone();
            return Ok(Probe::Tcp { address, pace });
        }
        if !self.http.starts_with("http://") {
            return Err(format!(
                "HTTP must begin with http://, which {} does not: use TCP for what speaks TLS",
                self.http
            ));
        }
        Ok(Probe::Http {
            url: self.http.clone(),
            method: self.method.clone(),
            headers: self.headers.clone(),
            body: self.body.clone(),
            pace,
        })
    }

    /// After how long a critical check takes its service away, if ever.
    pub(crate) fn deregister_after(&self) -> Option<Duration> {
        let after = self.deregister_after;
        (!after.is_zero()).then(|| after.clamp(MIN_DEREGISTER, LONGEST))
    }
}

/// Takes what Consul runs and we do not; returns its name if there is any of it.
fn foreign(fields: &mut Fields) -> Result<Option<&'static str>, Malformed> {
    let mut found = None;
    for (name, kind) in [
        ("DockerContainerID", "Docker"),
        ("H2PING", "H2PING"),
        ("UDP", "UDP"),
        ("OSService", "OS service"),
        ("Script", "Script"),
    ] {
        if !fields.text(name)?.is_empty() {
            found = Some(kind);
        }
    }
    for name in ["ScriptArgs", "Args"] {
        if !fields.texts(name)?.is_empty() {
            found = Some("Script");
        }
    }
    // Of these, and of what is verified there.
    fields.text("Shell")?;
    fields.text("TLSServerName")?;
    for name in ["H2PingUseTLS", "TCPUseTLS", "TLSSkipVerify"] {
        fields.switch(name)?;
    }
    Ok(found)
}

/// A number of answers.
fn count(fields: &mut Fields, name: &str) -> Result<u32, Malformed> {
    let number = fields.number(name)?.unwrap_or_default();
    u32::try_from(number).map_err(|_| Malformed::new(format!("{name} must be 0 or more")))
}

/// Header lines by name.
fn headers(fields: &mut Fields) -> Result<BTreeMap<String, Vec<String>>, Malformed> {
    let wrong = || Malformed::new("Header must be an object of lists of texts");
    let mut headers = BTreeMap::new();
    for (name, value) in fields.opaque("Header")? {
        let lines: Vec<String> = serde_json::from_value(value).map_err(|_| wrong())?;
        headers.insert(name, lines);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(value: Value) -> CheckDefinition {
        CheckDefinition::read(Fields::of(value, "").unwrap()).unwrap()
    }

    #[test]
    fn a_check_is_refused_in_consuls_words() {
        for (value, refused) in [
            (json!({ "Name": "foo" }), "TTL must be > 0 for TTL checks"),
            (
                json!({ "TCP": "a:1" }),
                "Interval must be > 0 for Script, HTTP, or TCP checks",
            ),
            (
                json!({ "HTTP": "http://a", "Interval": "1s", "TTL": "1s" }),
                "Interval and TTL cannot both be specified",
            ),
            (
                json!({ "AliasService": "a", "TTL": "1s" }),
                "TTL must be not be set for Alias checks",
            ),
            (
                json!({ "AliasService": "a", "AliasNode": "other" }),
                "AliasNode must be this node: nothing is known of others here",
            ),
            (
                json!({ "Args": ["true"], "Interval": "1s" }),
                "Script checks are not run here: use TCP, HTTP, GRPC or TTL",
            ),
            (
                json!({ "GRPC": "a:1" }),
                "Interval must be > 0 for Script, HTTP, or TCP checks",
            ),
            (
                json!({ "GRPC": "a:1", "GRPCUseTLS": true, "Interval": "1s" }),
                "gRPC is not checked over TLS here: use TCP for what speaks TLS",
            ),
            (
                json!({ "HTTP": "https://a", "Interval": "1s" }),
                "HTTP must begin with http://, which https://a does not: use TCP for what speaks TLS",
            ),
        ] {
            assert_eq!(read(value).probe("n1"), Err(refused.to_owned()));
        }
    }

    #[test]
    fn a_check_that_is_asked_has_a_pace() {
        let probe = |value| read(value).probe("n1").unwrap();
        let pace = |interval, timeout| Pace {
            interval: Duration::from_millis(interval),
            timeout: Duration::from_millis(timeout),
            success_before_passing: 0,
            failures_before_critical: 0,
        };
        for (value, expected) in [
            (
                json!({ "TCP": "a:1", "Interval": "2s" }),
                pace(2000, 10_000),
            ),
            (json!({ "TCP": "a:1", "Interval": 1 }), pace(100, 10_000)),
            (
                json!({ "TCP": "a:1", "Interval": "2s", "Timeout": "1s" }),
                pace(2000, 1000),
            ),
        ] {
            let address = "a:1".to_owned();
            let pace = expected;
            assert_eq!(probe(value), Probe::Tcp { address, pace });
        }
        let grpc = probe(json!({ "GRPC": "a:1/web", "Interval": "2s" }));
        let target = "a:1/web".to_owned();
        let expected = pace(2000, 10_000);
        assert_eq!(
            grpc,
            Probe::Grpc {
                target,
                pace: expected
            }
        );
        let alias = probe(json!({ "AliasNode": "n1", "AliasService": "web" }));
        assert_eq!(alias, Probe::Alias("web".to_owned()));
        let ttl = probe(json!({ "TTL": "3s" }));
        assert_eq!(ttl, Probe::Ttl(Duration::from_secs(3)));
    }
}
