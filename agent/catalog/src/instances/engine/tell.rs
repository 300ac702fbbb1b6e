//! The events for the renderer.

use std::{collections::HashMap, hash::BuildHasher as _, sync::Arc, time::Instant};

use shunt_model::{NodePortUpdate, RendererEvent, Service, Snapshot};

use crate::instances::{
    engine::{
        About, Engine, Known, Work,
        entry::{Claim, PATIENCE},
        translated::Translated,
    },
    frontend::Vip,
    place::Place,
    query::Query,
    tier::Datacenter,
};

impl Engine {
    /// Returns the next event for the renderer, which is under way from then on until it is [done](Self::done).
    pub(crate) fn next(&mut self, now: Instant) -> Option<Work> {
        if self.is_busy {
            return None;
        }
        let place = self.place.clone()?;
        self.stop_waiting(now);
        if !self.is_synced {
            let is_due = self.under_way.is_empty() && !self.has_failed && self.is_complete(now);
            return is_due.then(|| self.everything(&place));
        }
        if self.node_ips != self.told_node_ips {
            if !self.under_way.is_empty() || self.has_failed {
                return self.next_service(&place);
            }
            self.is_busy = true;
            let node_ips = self.node_ips.clone();
            return Some(Work {
                event: RendererEvent::UpdateNodePortServices(NodePortUpdate {
                    node_ips: node_ips.clone(),
                    services: Vec::new(),
                }),
                about: About::NodeIps(node_ips),
                undecided: Vec::new(),
            });
        }
        self.next_service(&place)
    }

    fn next_service(&mut self, place: &Place) -> Option<Work> {
        let mut at = 0;
        while let Some(&entry) = self.pending.get(at) {
            if self.under_way.contains(&entry) {
                at += 1;
                continue;
            }
            self.pending.remove(at);
            self.entries[entry].is_pending = false;
            let service = match self.translated(entry, place) {
                Translated::Service(service) => Some(*service),
                Translated::Nothing => None,
                // It stays as it is.
                Translated::Undecided => continue,
            };
            let mark = service.as_ref().map(|service| self.mark(service));
            let id = Arc::clone(&self.entries[entry].frontend.id);
            let told = self.told.get(&id).copied();
            let event = match service {
                Some(_) if told == Some(mark) => continue,
                Some(service) => RendererEvent::UpdateService(service),
                None if told.is_some() => RendererEvent::DeleteService((*id).clone()),
                None => continue,
            };
            self.under_way.insert(entry);
            return Some(Work {
                event,
                about: About::Service { entry, mark },
                undecided: Vec::new(),
            });
        }
        None
    }

    /// Returns whether all is known that is needed to begin: the answers of this datacenter, which are waited for for a
    /// while, and for ever if nothing is known at all, and each address that is claimed. Frontends that wait for more
    /// wait alone.
    fn is_complete(&self, now: Instant) -> bool {
        let is_late = self
            .began
            .is_some_and(|began| now.duration_since(began) >= PATIENCE);
        let here = |query: &Query| query.datacenter == Datacenter::Own;
        let mut queries = self.users.keys();
        if !is_late && queries.any(|query| here(query) && !self.known.contains_key(query)) {
            return false;
        }
        let mut known = self.known.values();
        let is_answered = known.any(|known| matches!(known, Known::Instances(_)));
        let mut entries = self.entries.iter();
        (is_answered || self.entries.is_empty())
            && entries.all(|entry| {
                !matches!(entry.frontend.vip, Vip::Claimed(_)) || entry.claim != Claim::Open
            })
    }

    /// Marks frontends that have waited for too long as changed, so that they are sent without what they waited for.
    fn stop_waiting(&mut self, now: Instant) {
        self.began.get_or_insert(now);
        for entry in 0..self.entries.len() {
            if self.entries[entry].has_waited(now) {
                self.change(entry);
            }
        }
    }

    fn everything(&mut self, place: &Place) -> Work {
        // What has changed until now is in it.
        self.pending.clear();
        let mut services = Vec::with_capacity(self.entries.len());
        let mut marks = HashMap::with_capacity(self.entries.len());
        let mut undecided = Vec::new();
        for entry in 0..self.entries.len() {
            self.entries[entry].is_pending = false;
            match self.translated(entry, place) {
                Translated::Service(service) => {
                    marks.insert(Arc::clone(&service.id), Some(self.mark(&service)));
                    services.push(*service);
                }
                Translated::Nothing => {}
                Translated::Undecided => {
                    if let Some(service) = self.without_endpoints(entry, place) {
                        // Whatever the kernel has of it is not what is known here.
                        marks.insert(Arc::clone(&service.id), None);
                        undecided.push(service);
                    }
                }
            }
        }
        self.is_busy = true;
        let node_ips = self.node_ips.clone();
        Work {
            event: RendererEvent::Resync(Snapshot {
                node_ips: node_ips.clone(),
                services,
                ..Snapshot::default()
            }),
            about: About::All { marks, node_ips },
            undecided,
        }
    }

    /// By what a service is known again.
    fn mark(&self, service: &Service) -> u64 {
        self.marks.hash_one(service)
    }
}
