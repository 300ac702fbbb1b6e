//! How the traffic of a whole Service is split, as meshes say it.

use std::sync::Arc;

use shunt_model::{ServiceId, Split, SplitBackend, SplitFrontends, SplitMode, SplitTarget};

use crate::source::kubernetes::{
    objects::{
        service_profile::{Override, ServiceProfile},
        traffic_split::TrafficSplit,
    },
    routes::{attach::sum, book::Book},
    translate::problem::Problem,
};

/// What splits the ports of a Service that no route has.
#[derive(Debug, Clone, Copy)]
pub(super) enum MeshSplit<'a> {
    Profile(&'a ServiceProfile),
    TrafficSplit(&'a TrafficSplit),
}

impl Book {
    /// What the oldest ServiceProfile of the service says to proxies.
    pub(super) fn settings(&self, service: &ServiceId) -> Option<Arc<str>> {
        let profile = self.service_profiles.of(service).first()?;
        Some(Arc::clone(&profile.settings))
    }

    /// The oldest ServiceProfile of the service, if it splits anything; else the oldest TrafficSplit, if
    /// that does: Linkerd makes ServiceProfiles of TrafficSplits.
    pub(super) fn mesh_split(
        &self,
        service: &ServiceId,
        problems: &mut Vec<Problem>,
    ) -> Option<MeshSplit<'_>> {
        let profile = self.service_profiles.of(service).first();
        if let Some(profile) = profile.filter(|profile| profile.splits(problems)) {
            return Some(MeshSplit::Profile(profile));
        }
        let split = self.traffic_splits.of(service).first()?;
        split
            .splits(problems)
            .then_some(MeshSplit::TrafficSplit(split))
    }
}

impl MeshSplit<'_> {
    /// The split of a port with this number.
    pub(super) fn of_port(self, asked: u16) -> Split {
        let backends = match self {
            Self::Profile(profile) => profile
                .shares()
                .map(|(id, port, weight)| backend(id, port.unwrap_or(asked), weight))
                .collect(),
            Self::TrafficSplit(split) => split
                .backends
                .iter()
                .map(|(id, weight)| backend(id, asked, *weight))
                .collect(),
        };
        Split {
            mode: SplitMode::Available,
            frontends: SplitFrontends::ClusterIp,
            backends,
        }
    }
}

fn backend(id: &ServiceId, port: u16, weight: u32) -> SplitBackend {
    SplitBackend {
        target: SplitTarget::Service {
            id: Arc::new(id.clone()),
            port,
        },
        weight,
    }
}

impl TrafficSplit {
    /// Whether it splits anything.
    fn splits(&self, problems: &mut Vec<Problem>) -> bool {
        let bad = self.bad_backends.iter();
        problems.extend(bad.map(|reason| Problem::TrafficSplitBackend {
            split: self.id.name.clone(),
            reason: reason.clone(),
        }));
        let total = sum(self.backends.iter().map(|(_, weight)| *weight));
        if total.is_none() {
            problems.push(Problem::TrafficSplitWeights(self.id.name.clone()));
        }
        total.is_some_and(|total| total > 0)
    }
}

impl ServiceProfile {
    /// The Services that get a share, their ports, and their weights.
    fn shares(&self) -> impl Iterator<Item = (&ServiceId, Option<u16>, u32)> {
        self.overrides.iter().filter_map(|place| match place {
            Override::Service { id, port, weight } => Some((id, *port, *weight)),
            Override::Bad(_) => None,
        })
    }

    /// Whether it splits anything.
    fn splits(&self, problems: &mut Vec<Problem>) -> bool {
        for place in &self.overrides {
            if let Override::Bad(authority) = place {
                problems.push(Problem::ServiceProfileOverride {
                    profile: self.id.name.clone(),
                    authority: authority.clone(),
                });
            }
        }
        let total = sum(self.shares().map(|(_, _, weight)| weight));
        if total.is_none() {
            problems.push(Problem::ServiceProfileWeights(self.id.name.clone()));
        }
        total.is_some_and(|total| total > 0)
    }
}
