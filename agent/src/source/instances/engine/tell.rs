//! What the renderer is told.

use std::{collections::HashMap, hash::BuildHasher as _, sync::Arc, time::Instant};

use shunt_model::{NodePortUpdate, RendererEvent, Service, Snapshot};

use crate::source::instances::{
    engine::{About, Engine, Known, PATIENCE, Work, entry::Claim},
    frontend::Vip,
    place::Place,
    query::TierQueries,
};

impl Engine {
    /// What the renderer is to be told next, which is under way from then on until it is
    /// [done](Self::done).
    pub(crate) fn next(&mut self, now: Instant) -> Option<Work> {
        if self.is_busy {
            return None;
        }
        let place = self.place.clone()?;
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
            let service = self.translated(entry, place).map(|found| found.service);
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
            });
        }
        None
    }

    /// Whether all is known that is needed to begin: the instances that are wanted most, where others are
    /// wanted in their place, and each address that is claimed. Those that may not be asked are waited for for
    /// a while, and for ever if there are no others; other datacenters for a while.
    fn is_complete(&mut self, now: Instant) -> bool {
        let began = *self.began.get_or_insert(now);
        let is_late = now.duration_since(began) >= PATIENCE;
        let mut is_answered = self.entries.is_empty();
        for entry in &self.entries {
            let first = entry.tiers.first().map(|(_, queries)| queries.clone());
            for query in first.into_iter().flat_map(TierQueries::all) {
                match self.known.get(&query) {
                    Some(Known::Instances(_)) => is_answered = true,
                    Some(Known::Denied(since)) if now.duration_since(*since) >= PATIENCE => {}
                    Some(Known::Denied(_)) | None => return false,
                }
            }
            if !is_late && !self.is_decided(entry) {
                return false;
            }
        }
        let mut entries = self.entries.iter();
        is_answered
            && entries.all(|entry| {
                !matches!(entry.frontend.vip, Vip::Claimed(_)) || entry.claim != Claim::Open
            })
    }

    fn everything(&mut self, place: &Place) -> Work {
        // What has changed until now is in it.
        self.pending.clear();
        let mut services = Vec::with_capacity(self.entries.len());
        let mut marks = HashMap::with_capacity(self.entries.len());
        for entry in 0..self.entries.len() {
            self.entries[entry].is_pending = false;
            if let Some(found) = self.translated(entry, place) {
                let id = Arc::clone(&found.service.id);
                marks.insert(id, Some(self.mark(&found.service)));
                services.push(found.service);
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
        }
    }

    /// By what a service is known again.
    fn mark(&self, service: &Service) -> u64 {
        self.marks.hash_one(service)
    }
}
