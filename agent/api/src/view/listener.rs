//! Addresses at which the agent answers over HTTP.

use serde::Serialize;

use crate::proto;

/// Something that is asked over HTTP. The order of the fields is the order in JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Listener {
    /// `health`, `metrics`, or `health check of NAMESPACE/NAME`.
    pub name: String,
    /// Its addresses with their ports, separated by commas.
    pub address: String,
    /// Why it cannot be asked there, or not at all of them; it is tried again.
    pub problem: Option<String>,
}

impl From<Listener> for proto::Listener {
    fn from(listener: Listener) -> Self {
        let Listener {
            name,
            address,
            problem,
        } = listener;
        Self {
            name,
            address,
            problem,
        }
    }
}

impl From<proto::Listener> for Listener {
    fn from(message: proto::Listener) -> Self {
        let proto::Listener {
            name,
            address,
            problem,
        } = message;
        Self {
            name,
            address,
            problem,
        }
    }
}
