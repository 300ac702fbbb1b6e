//! The answer to a question.

use std::sync::Arc;

use crate::{
    lookup::{
        endpoint::EndpointView,
        query::Query,
        target::{Owner, Target, TargetKind},
    },
    protocol::Protocol,
    service_id::ServiceId,
};

/// The targets and endpoints behind the subject of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The question.
    pub query: Query,
    /// Everyone that it belongs to, or that wants it: by the order of [`TargetKind`], and within a kind those that have
    /// it before those that wait, the first of them first. Empty: none is known.
    pub targets: Vec<Target>,
    /// Every endpoint behind the frontends among the targets that are in use, sorted by key, each key
    /// once. Behind a workload or a node is nothing but itself: none.
    pub endpoints: Vec<EndpointView>,
    /// The service ports that have the address as an endpoint, and the port if one was asked for;
    /// sorted.
    pub member_of: Vec<Membership>,
}

/// A service port that has an address as an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// The service.
    pub service: Arc<ServiceId>,
    /// The name of its port; may be empty.
    pub port_name: Arc<str>,
    /// The service's port in host byte order.
    pub port: u16,
    /// The transport protocol.
    pub protocol: Protocol,
    /// The endpoint's port in host byte order.
    pub endpoint_port: u16,
    /// It takes new connections.
    pub ready: bool,
    /// It answers, ready or not.
    pub serving: bool,
    /// It is on its way out.
    pub terminating: bool,
}

impl Answer {
    /// Returns the kind of the subject.
    pub fn kind(&self) -> TargetKind {
        self.targets
            .first()
            .map_or(TargetKind::Unknown, |target| target.kind)
    }

    /// Returns whether something is there: a service's port, a workload or a node.
    pub fn exists(&self) -> bool {
        self.kind() < TargetKind::UndefinedPort
    }

    /// Returns the owners, in the order of the targets, each once.
    pub fn owners(&self) -> Vec<Owner> {
        let mut owners = Vec::new();
        for target in self.targets.iter().filter(|target| target.in_use) {
            let owner = target.owner();
            if !owners.contains(&owner) {
                owners.push(owner);
            }
        }
        owners
    }
}
