//! The slices of a Service are made what they are to be.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use shunt_model::ServiceId;
use tracing::{debug, info, warn};

use crate::{
    controllers::workloads::{
        desired::{Desired, LeftOut},
        events::Notice,
        packing::plan,
        queue::{End, Next},
        service::Service,
        work::{Finished, REVIVE, WorkloadWork},
        write_error::WriteError,
        writer::{Outcome, write},
    },
    objects::external_workload::{Group, WorkloadKey},
};

impl WorkloadWork {
    /// Has the slices of a Service be what they are to be.
    pub(super) fn sync(&mut self, id: ServiceId, now: Instant) {
        let service = self.store.service(&id).cloned();
        let Some(service) = service.filter(|service| service.has_endpoints()) else {
            // Its slices go with it, or have no owner any more: the cluster's garbage collector has them.
            self.leave_out(&id, BTreeMap::new());
            self.queue.end(&id, End::Done, now);
            return;
        };
        if self.store.is_out_of_date(&id, now) {
            debug!("Service {id}: what is known of its slices is older than what was written");
            self.failed(&service, "what is known of its slices is out of date", now);
            return;
        }
        let is_linkerds = self.store.is_linkerds(&id);
        if is_linkerds && self.told_services.insert(id.clone()) {
            let note = "linkerd's own controller publishes its ExternalWorkloads of linkerd: they are left to it";
            info!("Service {id}: {note}");
            self.notify(Notice::of_service(
                &service,
                "LeftToLinkerd",
                note.to_owned(),
            ));
        }
        if !is_linkerds {
            self.told_services.remove(&id);
        }
        let selected = self.store.selected(&service).values().map(|one| &**one);
        let selected = selected.filter(|one| {
            let key = &one.workload().key;
            let is_left = is_linkerds && key.group == Group::Linkerd;
            !is_left && !self.refused.contains_key(key)
        });
        let mut desired = Desired::of(&service, selected);
        let lists = plan(&service, &self.store.slices(&id), &desired);
        self.leave_out(&id, std::mem::take(&mut desired.left_out));
        if lists.is_empty() {
            self.meters.synced("nothing");
            self.queue.end(&id, End::Done, now);
            return;
        }
        let (client, ballot) = (self.client.clone(), self.ballot.clone());
        self.writing.spawn(async move {
            let outcome = write(&client, &ballot, &service, lists).await;
            Finished::Slices(id, outcome)
        });
    }

    fn leave_out(&mut self, id: &ServiceId, left_out: BTreeMap<Arc<WorkloadKey>, LeftOut>) {
        let changed = self.verdicts.set(id, left_out);
        changed.into_iter().for_each(|key| self.statuses.add(key));
    }

    /// Takes note of what became of the slices of a Service.
    pub(super) fn slices_done(&mut self, id: &ServiceId, outcome: Outcome) {
        let now = Instant::now();
        let Outcome {
            written,
            gone,
            counts,
            failure,
        } = outcome;
        if self.early.has_others(id, &written) {
            self.queue.add(id.clone());
        }
        self.meters
            .wrote_slices(counts.created, counts.updated, counts.deleted);
        written
            .into_iter()
            .for_each(|slice| self.store.written(slice, now));
        gone.iter().for_each(|slice| self.store.deleted(slice, now));
        let Some(error) = failure else {
            self.meters.synced("written");
            self.backoff.reset();
            self.queue.end(id, End::Done, now);
            return;
        };
        self.meters.synced(error.name());
        debug!("Service {id}: its slices are not all written: {error}");
        let Some(service) = self.store.service(id).cloned() else {
            self.queue.end(id, End::Done, now);
            return;
        };
        match &error {
            WriteError::NamespaceTerminating => {
                self.queue.end(id, End::Done, now);
            }
            WriteError::Conflict => self.failed(&service, &error.to_string(), now),
            // For example for want of quota, or by a policy: users see it at once, and it is tried again.
            WriteError::Forbidden(_) | WriteError::Invalid(_) => {
                if self.queue.end(id, End::Refused, now) == Next::Refused {
                    warn!("Service {id}: its workloads are not published: {error}");
                    self.notify(Notice::of_service(
                        &service,
                        "FailedToPublish",
                        error.to_string(),
                    ));
                }
            }
            WriteError::Unavailable { retry_after, .. } => {
                let pause = self.backoff.pause_after_error(*retry_after);
                self.rest(pause);
                self.queue.end(id, End::Again, now);
            }
            WriteError::NotLeading => {
                let pause = self.backoff.pause();
                self.rest(pause);
                self.queue.end(id, End::Again, now);
            }
        }
    }

    fn failed(&mut self, service: &Service, why: &str, now: Instant) {
        if self.queue.end(&service.id, End::Failed, now) == Next::Dropped {
            warn!(
                "Service {}: its workloads are not published, until something changes or {REVIVE:?} have \
                 passed: {why}",
                service.id
            );
            self.meters.dropped();
            let note = format!("its workloads are not published: {why}");
            self.notify(Notice::of_service(service, "FailedToPublish", note));
        }
    }
}
