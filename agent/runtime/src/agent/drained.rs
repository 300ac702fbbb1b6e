//! Health checks without the endpoints that an operator has drained.

use std::collections::BTreeMap;

use shunt_model::{Overrides, RendererEvent, Service, ServiceId};

use crate::{
    agent::Agent,
    health_checks::{HealthCheck, HealthCheckChange},
};

impl Agent {
    /// Returns the change that comes with an event, with drained endpoints left out of the counts.
    pub(crate) fn without_drained(
        &self,
        change: HealthCheckChange,
        event: &RendererEvent,
    ) -> HealthCheckChange {
        let overrides = self.renderer.overrides();
        if overrides.is_empty() {
            return change;
        }
        match (change, event) {
            (HealthCheckChange::Of(id, Some(check)), RendererEvent::UpdateService(service)) => {
                HealthCheckChange::Of(id, Some(counted(overrides, service, check)))
            }
            (HealthCheckChange::All(mut checks), RendererEvent::Resync(snapshot)) => {
                for service in &snapshot.services {
                    if let Some(check) = checks.get_mut(&*service.id) {
                        *check = counted(overrides, service, *check);
                    }
                }
                HealthCheckChange::All(checks)
            }
            (change, _) => change,
        }
    }

    /// Returns the known health checks as they are with these overrides.
    pub(crate) fn health_checks_with(
        &self,
        overrides: &Overrides,
        known: &BTreeMap<ServiceId, HealthCheck>,
    ) -> HealthCheckChange {
        let checks = known.iter().map(|(id, check)| {
            let service = self.renderer.told(id);
            let check = service.map_or(*check, |service| counted(overrides, service, *check));
            (id.clone(), check)
        });
        HealthCheckChange::All(checks.collect())
    }
}

fn counted(overrides: &Overrides, service: &Service, check: HealthCheck) -> HealthCheck {
    HealthCheck {
        local_endpoints: overrides.local_endpoints(&service.id, &service.ports),
        ..check
    }
}
