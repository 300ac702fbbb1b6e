//! Frontends in the form that is shown, for programs and for people: those of the renderer and
//! those that are live.

use std::{
    io::{self, Write},
    net::{IpAddr, SocketAddr},
};

use anyhow::{Context as _, Result};
use serde::Serialize;
use shunt_api::proto::{self, Difference, TrafficPolicy};
use shunt_datapath::LiveKey;
use shunt_model::{Backend, Clients, Frontend, FrontendKey};

use crate::commands::table::Table;

/// A frontend as it is shown. The order of the fields is the order in JSON. What no event says is
/// `null`.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    address: IpAddr,
    port: u16,
    protocol: String,
    kind: Option<String>,
    service: Option<String>,
    policy: Option<&'static str>,
    affinity_timeout: u32,
    backends: Vec<BackendRow>,
    /// How what is live differs from what the events lead to.
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<&'static str>,
    #[serde(skip)]
    this_node_only: bool,
    #[serde(skip)]
    shown: String,
}

#[derive(Debug, Serialize)]
struct BackendRow {
    ip: IpAddr,
    port: u16,
    weight: u32,
    local: bool,
}

impl From<(FrontendKey, &Frontend)> for Row {
    fn from((key, frontend): (FrontendKey, &Frontend)) -> Self {
        let FrontendKey {
            address,
            port,
            protocol,
        } = key;
        let Frontend {
            kind,
            policy,
            clients,
            refusal: _,
            backends,
            this_node: _,
            sources: _,
        } = frontend;
        let row = |&Backend {
                       ip,
                       port,
                       weight,
                       local,
                       scopes: _,
                   }: &Backend| BackendRow {
            ip,
            port,
            weight,
            local,
        };
        Self {
            address,
            port,
            protocol: protocol.name().to_owned(),
            kind: Some(kind.name().to_owned()),
            service: Some(backends.service.to_string()),
            policy: Some(policy.name()),
            affinity_timeout: backends.affinity_timeout,
            backends: backends.backends.iter().map(row).collect(),
            difference: None,
            this_node_only: *clients == Clients::ThisNode,
            shown: key.to_string(),
        }
    }
}

impl TryFrom<proto::Frontend> for Row {
    type Error = anyhow::Error;

    fn try_from(frontend: proto::Frontend) -> Result<Self> {
        let policy = match frontend.policy() {
            TrafficPolicy::Unspecified => None,
            TrafficPolicy::Cluster => Some("Cluster"),
            TrafficPolicy::Local => Some("Local"),
        };
        let difference = difference_name(frontend.difference());
        let proto::Frontend {
            key,
            kind,
            service,
            policy: _,
            affinity_timeout,
            this_node_only,
            backends,
            difference: _,
        } = frontend;
        let key = live_key(key)?;
        let LiveKey {
            address,
            port,
            protocol,
        } = key;
        let row = |backend: proto::LiveBackend| -> Result<BackendRow> {
            let proto::LiveBackend {
                ip,
                port,
                weight,
                local,
            } = backend;
            Ok(BackendRow {
                ip: parse_ip(&ip)?,
                port: u16::try_from(port)?,
                weight,
                local,
            })
        };
        Ok(Self {
            address,
            port,
            protocol: protocol_name(protocol.into()),
            kind,
            service,
            policy,
            affinity_timeout,
            backends: backends.into_iter().map(row).collect::<Result<_>>()?,
            difference,
            this_node_only,
            shown: key.to_string(),
        })
    }
}

impl Row {
    /// What differs, in words for people, if anything does.
    pub(crate) fn note(&self) -> Option<String> {
        let what = match self.difference? {
            "unknown" => "is in the kernel, but no event leads to it",
            _ => "is not in the kernel as the events lead to",
        };
        Some(format!("{} {what}", self.shown))
    }
}

/// A frontend's key out of a message.
pub(crate) fn live_key(key: Option<proto::FrontendKey>) -> Result<LiveKey> {
    let proto::FrontendKey {
        address,
        port,
        protocol,
    } = key.context("a frontend without a key")?;
    Ok(LiveKey {
        address: parse_ip(&address)?,
        port: u16::try_from(port)?,
        protocol: u8::try_from(protocol)?,
    })
}

/// An address out of a message.
pub(crate) fn parse_ip(text: &str) -> Result<IpAddr> {
    text.parse()
        .with_context(|| format!("`{text}` is not an IP address"))
}

/// A protocol by its number; one without a name is shown by its number.
pub(crate) fn protocol_name(number: i32) -> String {
    match proto::Protocol::try_from(number) {
        Ok(proto::Protocol::Tcp) => "TCP".to_owned(),
        Ok(proto::Protocol::Udp) => "UDP".to_owned(),
        Ok(proto::Protocol::Sctp) => "SCTP".to_owned(),
        Ok(proto::Protocol::Unspecified) | Err(_) => number.to_string(),
    }
}

/// A difference by its name.
pub(crate) const fn difference_name(difference: Difference) -> Option<&'static str> {
    match difference {
        Difference::Unspecified => None,
        Difference::Changed => Some("changed"),
        Difference::Unknown => Some("unknown"),
        Difference::Missing => Some("missing"),
    }
}

/// Writes the frontends as a table, a line for each backend.
pub(crate) fn write_table(rows: &[Row], output: &mut impl Write) -> io::Result<()> {
    let mut table = Table::new([
        "FRONTEND", "KIND", "SERVICE", "POLICY", "CLIENTS", "AFFINITY", "BACKEND", "WEIGHT",
        "LOCAL",
    ]);
    for row in rows {
        let known = |text: Option<&str>| text.unwrap_or("-").to_owned();
        let clients = if row.this_node_only {
            "this node"
        } else {
            "everyone"
        };
        let affinity = match row.affinity_timeout {
            0 => "-".to_owned(),
            seconds => format!("{seconds}s"),
        };
        let first = [
            row.shown.clone(),
            known(row.kind.as_deref()),
            known(row.service.as_deref()),
            known(row.policy),
            clients.into(),
            affinity,
        ];
        let mut left = Some(first);
        if row.backends.is_empty() {
            push(
                &mut table,
                left.take(),
                ["none".into(), "-".into(), "-".into()],
            );
        }
        for &BackendRow {
            ip,
            port,
            weight,
            local,
        } in &row.backends
        {
            let local = if local { "yes" } else { "no" };
            let right = [
                SocketAddr::new(ip, port).to_string(),
                weight.to_string(),
                local.into(),
            ];
            push(&mut table, left.take(), right);
        }
    }
    write!(output, "{table}")
}

/// Adds a row; a backend after the first has nothing on its left.
fn push(table: &mut Table<9>, left: Option<[String; 6]>, right: [String; 3]) {
    let [a, b, c, d, e, f] = left.unwrap_or_default();
    let [g, h, i] = right;
    table.push([a, b, c, d, e, f, g, h, i]);
}
