//! Registrations without a file.

use serde_json::Value;
use tokio::time::Instant;

use crate::local::{
    definition::{
        check::CheckDefinition, fields::Fields, file::Defined, service::ServiceDefinition,
    },
    state::{
        check::Check, definitions::Definitions, effects::Effects, refusal::Refusal,
        register::Change, registry::Registry, service::Service, status::Status,
    },
};

/// The name of this host.
pub(super) const NODE: &str = "n1";

pub(super) fn service(value: Value) -> ServiceDefinition {
    ServiceDefinition::of(value).unwrap()
}

pub(super) fn register(value: Value) -> Change {
    Change::Register {
        definition: Box::new(service(value)),
        replaces_checks: false,
    }
}

pub(super) fn check(value: Value) -> Change {
    let fields = Fields::of(value, "").unwrap();
    Change::RegisterCheck(Box::new(CheckDefinition::read(fields).unwrap()))
}

pub(super) fn deregister(id: &str) -> Change {
    Change::Deregister(id.to_owned())
}

pub(super) fn define(services: impl IntoIterator<Item = Value>) -> Change {
    Change::Define(Defined {
        services: services.into_iter().map(service).collect(),
        checks: Vec::new(),
    })
}

/// A registry whose changes take effect at once.
#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) registry: Registry,
}

impl World {
    pub(super) fn try_change(&mut self, change: &Change) -> Result<Effects, Refusal> {
        let mut next: Definitions = self.registry.known().clone();
        next.change(change, NODE)?;
        Ok(self.registry.install(next, Instant::now()))
    }

    pub(super) fn change(&mut self, change: &Change) -> Effects {
        self.try_change(change).unwrap()
    }

    pub(super) fn service(&self, id: &str) -> Option<&Service> {
        let registered = self.registry.known().service(id);
        registered.map(|registered| &registered.service)
    }

    pub(super) fn check(&self, id: &str) -> &Check {
        let known = self.registry.known();
        let known = known.check(id);
        known.unwrap_or_else(|| panic!("there is no check {id}"))
    }

    /// Returns a check's status and its output.
    pub(super) fn health(&self, id: &str) -> (Status, String) {
        let check = self.check(id);
        (self.registry.status(check), self.registry.output(check))
    }

    pub(super) fn tell(&mut self, id: &str, status: Status) -> Effects {
        let output = format!("is {status}");
        self.registry.tell(id, status, &output, Instant::now())
    }
}
