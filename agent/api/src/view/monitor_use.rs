//! Watchers of connections and packets.

use serde::Serialize;

use crate::proto;

/// Watchers, and the events for them since the agent's start. The order of the fields is the order in JSON.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct MonitorUse {
    /// Number of watchers now.
    pub watchers: u64,
    /// Events that were seen while there was a watcher.
    pub told: u64,
    /// Events that found no room on their way.
    pub lost: u64,
}

impl From<MonitorUse> for proto::MonitorUse {
    fn from(monitor: MonitorUse) -> Self {
        let MonitorUse {
            watchers,
            told,
            lost,
        } = monitor;
        Self {
            watchers,
            told,
            lost,
        }
    }
}

impl From<proto::MonitorUse> for MonitorUse {
    fn from(message: proto::MonitorUse) -> Self {
        let proto::MonitorUse {
            watchers,
            told,
            lost,
        } = message;
        Self {
            watchers,
            told,
            lost,
        }
    }
}
