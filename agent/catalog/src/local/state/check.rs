//! A check that is registered.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::local::{
    definition::check::{CheckDefinition, Probe},
    state::{
        refusal::Refusal,
        service::{Origin, Service},
        status::Status,
    },
};

/// Prefix of the id of the check that a service in maintenance has.
const MAINTENANCE: &str = "_service_maintenance:";

/// The id of the check that the node has in maintenance.
pub(crate) const NODE_MAINTENANCE: &str = "_node_maintenance";

/// Reason for a maintenance that has none.
const DEFAULT_REASON: &str = "Maintenance mode is enabled for this service, but no reason was provided. This is a default message.";

/// Likewise of the node.
const DEFAULT_NODE_REASON: &str = "Maintenance mode is enabled for this node, but no reason was provided. This is a default message.";

/// A check that is registered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Its id, one among all.
    pub id: String,
    /// Its name.
    pub name: String,
    /// For people.
    pub notes: String,
    /// The service that it is a check of; empty: the node, and so of every service.
    pub service: String,
    /// Source of its verdict.
    pub probe: Probe,
    /// Its status until it has a verdict.
    pub(crate) first: Status,
    /// Time that it may be critical until its service is deregistered, if it is at all.
    pub(crate) deregister_after: Option<Duration>,
    /// Its origin.
    pub(crate) origin: Origin,
}

impl Check {
    /// A check of a service, with its own id or this one.
    ///
    /// # Errors
    ///
    /// It is not as a check has to be.
    pub(crate) fn of_service(
        definition: &CheckDefinition,
        service: &Service,
        id: String,
        origin: Origin,
        node: &str,
    ) -> Result<Self, Refusal> {
        let first = definition.first_status().map_err(|()| {
            Refusal::bad("Status for checks must 'passing', 'warning', 'critical'")
        })?;
        let probe = definition.probe(node);
        let probe = probe.map_err(|reason| Refusal::Bad(format!("Invalid check: {reason}")))?;
        let name = if definition.name.is_empty() {
            format!("Service '{}' check", service.name)
        } else {
            definition.name.clone()
        };
        Ok(Self {
            id: own_or(&definition.id, id),
            name,
            notes: definition.notes.clone(),
            service: service.id.clone(),
            probe,
            first,
            deregister_after: definition.deregister_after(),
            origin,
        })
    }

    /// A check that is registered by itself.
    ///
    /// # Errors
    ///
    /// It is not as a check has to be.
    pub(crate) fn alone(
        definition: &CheckDefinition,
        origin: Origin,
        node: &str,
    ) -> Result<Self, Refusal> {
        if definition.name.is_empty() {
            return Err(Refusal::bad("Missing check name"));
        }
        let first = definition.first_status();
        let first = first.map_err(|()| Refusal::bad("Bad check status"))?;
        let probe = definition.probe(node);
        let probe = probe.map_err(|reason| Refusal::Bad(format!("Invalid check: {reason}")))?;
        Ok(Self {
            id: own_or(&definition.id, definition.name.clone()),
            name: definition.name.clone(),
            notes: definition.notes.clone(),
            service: definition.service_id.clone(),
            probe,
            first,
            deregister_after: definition.deregister_after(),
            origin,
        })
    }

    /// Returns the check of a service in maintenance.
    pub(crate) fn maintenance(service: &str, reason: &str) -> Self {
        let reason = own_or(reason, DEFAULT_REASON.to_owned());
        let id = maintenance_id(service);
        Self::out_of_service(id, "Service Maintenance Mode", service, reason)
    }

    /// Returns the check of the node in maintenance.
    pub(crate) fn node_maintenance(reason: &str) -> Self {
        let reason = own_or(reason, DEFAULT_NODE_REASON.to_owned());
        let id = NODE_MAINTENANCE.to_owned();
        Self::out_of_service(id, "Node Maintenance Mode", "", reason)
    }

    fn out_of_service(id: String, name: &str, service: &str, reason: String) -> Self {
        Self {
            id,
            name: name.to_owned(),
            notes: reason,
            service: service.to_owned(),
            probe: Probe::Maintenance,
            first: Status::Critical,
            deregister_after: None,
            origin: Origin::Api,
        }
    }
}

/// The id of the check that a service in maintenance has.
pub(crate) fn maintenance_id(service: &str) -> String {
    format!("{MAINTENANCE}{service}")
}

fn own_or(own: &str, other: String) -> String {
    if own.is_empty() {
        other
    } else {
        own.to_owned()
    }
}
