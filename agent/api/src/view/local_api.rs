//! Services that are registered with the agent itself.

use serde::Serialize;

use crate::{
    proto,
    view::{federation::Federation, source::Untranslated},
};

/// Services that are registered with the agent itself. The order of the fields is the order in JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LocalApi {
    /// Address at which they are registered.
    pub address: String,
    /// Number of services.
    pub services: u64,
    /// Checks that pass, of services and of the node.
    pub passing: u64,
    /// Checks that warn.
    pub warning: u64,
    /// Checks that fail.
    pub critical: u64,
    /// Clients that wait for a service to change.
    pub waiting: u64,
    /// The file in which registrations outlive the agent.
    pub state: String,
    /// Number of writes of this file since the agent's start.
    pub writes: u64,
    /// Number of writes that failed.
    pub failed_writes: u64,
    /// Faults at present, in words.
    pub troubles: Vec<String>,
    /// The frontends that lead to these services; 0 if they lead nowhere.
    pub frontends: u64,
    /// Services whose last change is not in the kernel yet.
    pub pending: u64,
    /// Parts of each that are not translated, and why, sorted.
    pub untranslated: Vec<Untranslated>,
    /// The known state of other datacenters, if this one takes part in a federation.
    pub federation: Option<Federation>,
}

impl From<LocalApi> for proto::LocalApi {
    fn from(local: LocalApi) -> Self {
        let LocalApi {
            address,
            services,
            passing,
            warning,
            critical,
            waiting,
            state,
            writes,
            failed_writes,
            troubles,
            frontends,
            pending,
            untranslated,
            federation,
        } = local;
        Self {
            address,
            services,
            passing,
            warning,
            critical,
            waiting,
            state,
            writes,
            failed_writes,
            troubles,
            frontends,
            pending,
            untranslated: untranslated
                .into_iter()
                .map(|Untranslated { service, reasons }| proto::Untranslated { service, reasons })
                .collect(),
            federation: federation.map(Into::into),
        }
    }
}

impl From<proto::LocalApi> for LocalApi {
    fn from(message: proto::LocalApi) -> Self {
        let proto::LocalApi {
            address,
            services,
            passing,
            warning,
            critical,
            waiting,
            state,
            writes,
            failed_writes,
            troubles,
            frontends,
            pending,
            untranslated,
            federation,
        } = message;
        Self {
            address,
            services,
            passing,
            warning,
            critical,
            waiting,
            state,
            writes,
            failed_writes,
            troubles,
            frontends,
            pending,
            untranslated: untranslated
                .into_iter()
                .map(|proto::Untranslated { service, reasons }| Untranslated { service, reasons })
                .collect(),
            federation: federation.map(Into::into),
        }
    }
}
