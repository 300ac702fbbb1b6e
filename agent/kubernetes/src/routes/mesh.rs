//! The split of a whole Service's traffic, as meshes define it.

use std::sync::Arc;

use shunt_model::{ServiceId, Split, SplitBackend, SplitFrontends, SplitMode, SplitTarget};

use crate::{
    objects::{
        service_profile::{Override, ServiceProfile},
        traffic_split::TrafficSplit,
    },
    routes::{attach::sum, book::Book},
    translate::problem::Problem,
};

/// Split of the ports of a Service that no route has: the Services that get a share, the ports that are used there if
/// not the same, and the weights.
#[derive(Debug)]
pub(super) struct MeshSplit(Vec<(Arc<ServiceId>, Option<u16>, u32)>);

impl Book {
    /// The ServiceProfile of the service, if it splits anything; else the oldest TrafficSplit, if
    /// that does: Linkerd makes ServiceProfiles of TrafficSplits.
    pub(super) fn mesh_split(
        &self,
        service: &ServiceId,
        problems: &mut Vec<Problem>,
    ) -> Option<MeshSplit> {
        let profile = self.service_profile(service);
        if let Some(profile) = profile.filter(|profile| profile.splits(problems)) {
            let shares = profile.shares();
            let shares = shares.map(|(id, port, weight)| (Arc::new(id.clone()), port, weight));
            return Some(MeshSplit(shares.collect()));
        }
        let split = self.traffic_splits.of(service).first()?;
        if !split.splits(problems) {
            return None;
        }
        let backends = split.backends.iter();
        let shares = backends.map(|(id, weight)| (Arc::new(id.clone()), None, *weight));
        Some(MeshSplit(shares.collect()))
    }
}

impl MeshSplit {
    /// The split of a port with this number.
    pub(super) fn of_port(&self, asked: u16) -> Split {
        let Self(shares) = self;
        let backends = shares.iter().map(|(id, port, weight)| SplitBackend {
            target: SplitTarget::Service {
                id: Arc::clone(id),
                port: port.unwrap_or(asked),
            },
            weight: *weight,
        });
        Split {
            mode: SplitMode::Available,
            frontends: SplitFrontends::ClusterIp,
            backends: backends.collect(),
        }
    }
}

impl TrafficSplit {
    /// Returns whether it splits anything.
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
    pub(super) fn shares(&self) -> impl Iterator<Item = (&ServiceId, Option<u16>, u32)> {
        self.overrides.iter().filter_map(|place| match place {
            Override::Service { id, port, weight } => Some((id, *port, *weight)),
            Override::Bad(_) => None,
        })
    }

    /// Returns whether it splits anything.
    pub(super) fn splits(&self, problems: &mut Vec<Problem>) -> bool {
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
