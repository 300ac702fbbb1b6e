//! The standing of an instance by its checks.

use shunt_model::EndpointState;

use crate::instances::{
    frontend::Frontend,
    instance::{CheckStatus, Instance, Weights},
};

/// Weights are at most this, as Consul's agents hold it. Catalogs take any number.
const HEAVIEST: i64 = 65_535;

/// State of an endpoint, and its weight. A weight of 0 and being on its way out go together.
pub(super) type Standing = (EndpointState, u32);

/// On its way out: it keeps its connections and takes no new one. A health check is an opinion; that an
/// instance is gone is a fact, which only its deregistration shows.
const DRAINING: Standing = (EndpointState::Terminating, 0);

impl Frontend {
    /// Returns the standing of an instance by the worst of its checks; with `only_passing` one that is warned
    /// of drains, whatever the frontend has configured.
    pub(super) fn standing(&self, instance: &Instance, only_passing: bool) -> Standing {
        let checks = instance.checks.iter();
        let counted = checks.filter(|check| !self.ignored_checks.contains(&check.id));
        let worst = counted.map(|check| check.status).max();
        let Weights { passing, warning } = instance.weights.unwrap_or(Weights {
            passing: 1,
            warning: 1,
        });
        let weight = match worst.unwrap_or(CheckStatus::Passing) {
            CheckStatus::Passing => passing.max(1),
            CheckStatus::Warning if !self.only_passing && !only_passing => warning,
            CheckStatus::Warning | CheckStatus::Critical => 0,
        };
        if weight < 1 {
            return DRAINING;
        }
        (EndpointState::Ready, weight.min(HEAVIEST) as u32)
    }
}
