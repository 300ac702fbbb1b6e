//! The events for the renderer.

use std::{
    collections::{BTreeMap, HashMap},
    hash::BuildHasher as _,
    sync::Arc,
};

use shunt_model::{NodePortUpdate, RendererEvent, Service as ModelService, ServiceId, Snapshot};
use shunt_runtime::{Circumstances, HealthCheck, HealthCheckChange, Trigger};

use crate::{
    engine::{About, Engine, Work},
    failures::General,
    pending::Changed,
    translate::service::{Translation, translate},
};

impl Engine {
    /// Returns the next event for the renderer, which is under way from then on until it is
    /// [done](Self::done).
    pub(crate) fn next(&mut self) -> Option<Work> {
        // An event about more than one service goes alone.
        if self.under_way.is_general {
            return None;
        }
        let work = self.next_work()?;
        self.under_way.begin(&work.about);
        Some(work)
    }

    fn next_work(&mut self) -> Option<Work> {
        if !self.is_synced {
            let is_due = self.failures.is_due(General::All, true);
            return (is_due && self.links.are_complete()).then(|| self.everything());
        }
        if let Some(work) = self.general() {
            return self.under_way.is_empty().then_some(work);
        }
        loop {
            let under_way = &self.under_way.services;
            let Some((id, changed)) = self.pending.next(|id| !under_way.contains(id)) else {
                break;
            };
            let (model, check) = self.translated(&id);
            let mark = model.as_ref().map(|model| self.mark(model, check));
            let told = self.told.get(&id).copied();
            let event = match model {
                Some(_) if told == Some(mark) => continue,
                Some(model) => RendererEvent::UpdateService(model),
                None if told.is_some() => RendererEvent::DeleteService((*id).clone()),
                None => {
                    self.failures.forget(&id);
                    continue;
                }
            };
            return Some(Work {
                event,
                circumstances: Circumstances {
                    triggers: self.recent(changed),
                    health_checks: HealthCheckChange::Of((*id).clone(), check),
                    routine: true,
                    ..Circumstances::default()
                },
                about: About::Service { id, mark },
            });
        }
        self.show();
        let work = self.tell_of_pods();
        let are_applied = work.is_none() && self.under_way.is_empty() && !self.pods.differ();
        if are_applied && self.links.are_workloads_complete() {
            self.reports.set_workloads_awaited(false);
        }
        work
    }

    /// Returns an event on more than one service, before a service that needs it.
    fn general(&mut self) -> Option<Work> {
        let failures = &mut self.failures;
        let (event, about) = if failures.is_due(General::Nodes, self.peers != self.told_peers) {
            let nodes = self.peers.clone();
            let event = RendererEvent::UpdateNodes(nodes.clone());
            (event, About::Nodes(nodes))
        } else if failures.is_due(General::NodeIps, self.node_ips != self.told_node_ips) {
            let node_ips = self.node_ips.clone();
            let update = NodePortUpdate {
                node_ips: node_ips.clone(),
                services: Vec::new(),
            };
            let event = RendererEvent::UpdateNodePortServices(update);
            (event, About::NodeIps(node_ips))
        } else if failures.is_due(
            General::ServiceCidrs,
            self.view.service_cidrs != self.told_service_cidrs,
        ) {
            let cidrs = self.view.service_cidrs.clone();
            let event = RendererEvent::UpdateServiceCidrs(cidrs.clone());
            (event, About::ServiceCidrs(cidrs))
        } else {
            return None;
        };
        Some(Work {
            event,
            circumstances: Circumstances::default(),
            about,
        })
    }

    fn everything(&mut self) -> Work {
        // What has changed until now is in it.
        self.pending.clear();
        let ids = self.store.by_age().into_iter().map(Arc::clone);
        let ids: Vec<_> = ids.collect();
        let mut services = Vec::with_capacity(ids.len());
        let mut marks = HashMap::with_capacity(ids.len());
        let mut checks = BTreeMap::new();
        for id in ids {
            let (model, check) = self.translated(&id);
            if let Some(check) = check {
                checks.insert((*id).clone(), check);
            }
            if let Some(model) = model {
                marks.insert(id, Some(self.mark(&model, check)));
                services.push(model);
            }
        }
        let node_ips = self.node_ips.clone();
        let service_cidrs = self.view.service_cidrs.clone();
        let nodes = self.peers.clone();
        let snapshot = Snapshot {
            node_ips: node_ips.clone(),
            services,
            service_cidrs: service_cidrs.clone(),
            nodes: nodes.clone(),
            workloads: self.pods.all(),
            ..Snapshot::default()
        };
        Work {
            event: RendererEvent::Resync(snapshot),
            circumstances: Circumstances {
                triggers: Vec::new(),
                health_checks: HealthCheckChange::All(checks),
                routine: false,
                ..Circumstances::default()
            },
            about: About::All {
                marks,
                node_ips,
                service_cidrs,
                nodes,
            },
        }
    }

    /// By what a service is known again.
    fn mark(&self, model: &ModelService, check: Option<HealthCheck>) -> u64 {
        let check = check.map(|check| (check.port, check.local_endpoints));
        self.marks.hash_one((model, check))
    }

    /// Returns the triggers since the agent's start: the duration of the others is unknown.
    fn recent(&self, changed: Changed) -> Vec<Trigger> {
        let triggers = changed.triggers.into_iter();
        triggers
            .filter(|trigger| trigger.at >= self.began)
            .collect()
    }

    /// The model's service and its health check, and a word about what is left out of it.
    fn translated(&mut self, id: &Arc<ServiceId>) -> (Option<ModelService>, Option<HealthCheck>) {
        let known = self.store.known(id);
        let translation = known.and_then(|known| {
            let service = known.service.as_ref()?;
            let mut found = translate(service, known.slices.values(), &self.view);
            if let Some(model) = &mut found.service {
                self.book.split(service, model, &mut found.problems);
            }
            Some(found)
        });
        let Translation {
            service,
            health_check,
            problems,
            is_too_large,
        } = translation.unwrap_or_default();
        if is_too_large {
            self.too_large.insert(Arc::clone(id));
        } else {
            self.too_large.remove(id);
        }
        if self.reporter.report(id, &problems) {
            self.tell_problems(id, &problems);
        }
        (service, health_check)
    }
}
