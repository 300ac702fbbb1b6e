//! Routes, and the services that they concern.

use std::{collections::BTreeSet, sync::Arc};

use shunt_model::ServiceId;

use crate::{
    engine::{Engine, take::heard},
    objects::{custom::CustomKind, external_workload::Group},
    routes::change::RouteChange,
    store::Concerned,
    watch::step::Step,
};

impl Engine {
    /// The kinds that the cluster defines, of those that are followed where they are, in order.
    pub(crate) fn defined(&self) -> impl Iterator<Item = CustomKind> {
        self.links.custom.defined()
    }

    /// Takes note of the news of routes.
    pub(super) fn route(&mut self, change: RouteChange) -> Vec<Concerned> {
        let is_followed = match &change {
            RouteChange::Definition(step) => {
                let gone = self.links.custom.define(step);
                for group in [Group::Shunt, Group::Linkerd] {
                    if gone.contains(&group.kind()) {
                        let none = Step::listed(Vec::new());
                        self.machines.take(group, none, &mut self.pods);
                    }
                }
                if gone.contains(&CustomKind::Server) {
                    self.pods.take_servers(Step::listed(Vec::new()));
                }
                let services = gone.into_iter().flat_map(|kind| self.book.forget(kind));
                let services: BTreeSet<ServiceId> = services.collect();
                return self.with_splits(services);
            }
            RouteChange::TcpRoute(step) => self.hear(CustomKind::TcpRoute, step),
            RouteChange::UdpRoute(step) => self.hear(CustomKind::UdpRoute, step),
            RouteChange::ReferenceGrant(step) => self.hear(CustomKind::ReferenceGrant, step),
            RouteChange::TrafficSplit(step) => self.hear(CustomKind::TrafficSplit, step),
            RouteChange::ServiceProfile(step) => self.hear(CustomKind::ServiceProfile, step),
        };
        if !is_followed {
            return Vec::new();
        }
        let services = self.book.take(change);
        self.with_splits(services)
    }

    fn hear<T>(&mut self, kind: CustomKind, step: &Step<T>) -> bool {
        heard(&self.monitor, step);
        self.links.custom.follow(kind, step)
    }

    /// The services that are there.
    fn with_splits(&self, services: BTreeSet<ServiceId>) -> Vec<Concerned> {
        let there = services.into_iter().filter(|id| {
            let known = self.store.known(id);
            known.is_some_and(|known| known.service.is_some())
        });
        there.map(|id| Concerned::by(Arc::new(id))).collect()
    }
}
