//! Renderer events, as far as the sandbox has to understand them.
//!
//! This is a second reading of the event format on purpose: what the agent does is compared with
//! it.

use std::{collections::BTreeMap, fmt, fs, net::IpAddr, path::Path};

use anyhow::{Context as _, Result};
use serde::Deserialize;
use serde_json::Value;

/// An event with the text that the agent gets.
#[derive(Debug, Clone)]
pub(crate) struct EventLine {
    pub(crate) text: String,
    pub(crate) event: Event,
}

impl EventLine {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let event = serde_json::from_str(text).context("not an event")?;
        Ok(Self {
            text: text.to_owned(),
            event,
        })
    }

    /// An event that holds a service.
    pub(crate) fn with_service(name: &str, service: &Service) -> Result<Self> {
        Self::parse(&serde_json::json!({ "event": name, "service": service.raw }).to_string())
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "event")]
pub(crate) enum Event {
    Resync {
        node_ips: Vec<IpAddr>,
        #[serde(default)]
        services: Vec<Service>,
    },
    AddService {
        service: Service,
    },
    UpdateService {
        service: Service,
    },
    DeleteService {
        id: ServiceId,
    },
    UpdateNodePortServices {
        node_ips: Vec<IpAddr>,
        #[serde(default)]
        services: Vec<Service>,
    },
    /// About interfaces, which are the agent's business alone.
    #[serde(other)]
    Interfaces,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(crate) struct ServiceId {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl fmt::Display for ServiceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, name } = self;
        write!(f, "{namespace}/{name}")
    }
}

/// A service, with its JSON from which changed services are made.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "Value")]
pub(crate) struct Service {
    pub(crate) raw: Value,
    pub(crate) spec: ServiceSpec,
}

impl TryFrom<Value> for Service {
    type Error = serde_json::Error;

    fn try_from(raw: Value) -> Result<Self, serde_json::Error> {
        let spec = ServiceSpec::deserialize(&raw)?;
        Ok(Self { raw, spec })
    }
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ServiceSpec {
    pub(crate) id: ServiceId,
    #[serde(default)]
    pub(crate) cluster_ips: Vec<IpAddr>,
    #[serde(default)]
    pub(crate) external_ips: Vec<IpAddr>,
    #[serde(default)]
    pub(crate) traffic_policy: TrafficPolicy,
    #[serde(default)]
    pub(crate) ports: BTreeMap<String, Port>,
    #[serde(default)]
    pub(crate) backends: BTreeMap<String, Vec<Backend>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub(crate) enum TrafficPolicy {
    #[default]
    Cluster,
    Local,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Port {
    pub(crate) protocol: Protocol,
    pub(crate) port: u16,
    /// 0 is none.
    #[serde(default)]
    pub(crate) node_port: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) enum Protocol {
    #[serde(rename = "TCP")]
    Tcp,
    #[serde(rename = "UDP")]
    Udp,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Backend {
    pub(crate) ip: IpAddr,
    pub(crate) port: u16,
    #[serde(default)]
    pub(crate) local: bool,
    #[serde(default = "one")]
    pub(crate) weight: u32,
}

const fn one() -> u32 {
    1
}

/// Reads a file of events; empty lines are left out.
pub(crate) fn read_events(path: &Path) -> Result<Vec<EventLine>> {
    let text = fs::read_to_string(path).with_context(|| {
        format!(
            "cannot read {}: name a file of events with --events",
            path.display()
        )
    })?;
    let lines = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(number, line)| {
            EventLine::parse(line)
                .with_context(|| format!("{}: line {}", path.display(), number + 1))
        })
        .collect()
}
