//! Addresses at which the agent answers over HTTP, and their states.

use std::{collections::BTreeMap, fmt};

use shunt_model::ServiceId;

/// Something that is asked over HTTP.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Listener {
    /// The agent's health.
    Health,
    /// The probes of the process that keeps the agent running.
    Probes,
    /// Its metrics.
    Metrics,
    /// The page that shows the agent.
    Page,
    /// The health check of a service.
    HealthCheck(ServiceId),
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Health => f.write_str("health"),
            Self::Probes => f.write_str("probes"),
            Self::Metrics => f.write_str("metrics"),
            Self::Page => f.write_str("page"),
            Self::HealthCheck(service) => write!(f, "health check of {service}"),
        }
    }
}

/// State of a listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerState {
    /// Its addresses with their ports, as text.
    pub address: String,
    /// Why it cannot be asked there, or not at all of them; it is tried again.
    pub problem: Option<String>,
}

/// All of them.
pub type Listeners = BTreeMap<Listener, ListenerState>;
