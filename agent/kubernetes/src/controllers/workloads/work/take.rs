//! Handling of changes that the watches report.

use std::{collections::BTreeSet, sync::Arc, time::Instant};

use crate::{
    controllers::workloads::{
        early::Told,
        work::{WorkloadWork, watches::Change},
    },
    links::Link,
    objects::{
        custom::CustomKind,
        external_workload::{Group, WorkloadKey},
    },
    watch::step::Step,
};

impl WorkloadWork {
    /// Takes note of what is new.
    pub(super) fn take(&mut self, change: Change) {
        self.note(change);
        if self.is_heard() {
            self.meters.set_workloads_ready();
        }
    }

    fn note(&mut self, change: Change) {
        let is_lost = change.is_lost();
        if !is_lost && std::mem::take(&mut self.was_lost) {
            self.revive();
        }
        self.was_lost |= is_lost;
        let knew = self.knows_ranges();
        let (mut changed, mut judges) = (BTreeSet::new(), false);
        let mut concerned = match change {
            Change::Definition(step) => {
                let mut concerned = BTreeSet::new();
                self.definitions_are_listed |= matches!(step, Step::Listed(_));
                for kind in self.links.define(&step) {
                    self.listed.remove(&kind);
                    let group = match kind {
                        CustomKind::ExternalWorkload => Group::Shunt,
                        CustomKind::LinkerdExternalWorkload => Group::Linkerd,
                        _ => continue,
                    };
                    let none = Step::listed(Vec::new());
                    concerned.extend(self.store.take_workloads(group, none, &mut changed));
                }
                concerned
            }
            Change::Service(step) => {
                self.services_link.follow("Services", &step);
                judges = self.take_cluster_ips(&step);
                self.store.take_services(step)
            }
            Change::Slice(step) => {
                self.slices_link
                    .follow("EndpointSlices of workloads", &step);
                let told = match &step {
                    Step::Applied(slice) if self.queue.is_busy(&slice.service) => {
                        Some((slice.service.clone(), Told::of(slice)))
                    }
                    _ => None,
                };
                let mut concerned = self.store.take_slices(step, Instant::now());
                if let Some((service, told)) = told
                    && concerned.remove(&service)
                {
                    self.early.add(service, told);
                }
                concerned
            }
            Change::Linkerds(step) => {
                let link = self.linkerds_link.get_or_insert_with(Link::default);
                link.follow("EndpointSlices of linkerd's workloads", &step);
                self.store.take_linkerds(step)
            }
            Change::Workload(group, step) => {
                if self.links.follow(group.kind(), &step) {
                    if matches!(step, Step::Listed(_)) {
                        self.listed.insert(group.kind());
                    }
                    self.store.take_workloads(group, step, &mut changed)
                } else {
                    BTreeSet::new()
                }
            }
            Change::Node(step) => {
                judges = self.take_nodes(&step);
                BTreeSet::new()
            }
            Change::ServiceCidr(step) => {
                judges = self.take_service_cidrs(&step);
                BTreeSet::new()
            }
            Change::ApiServer(step) => {
                judges = self.take_api_server(&step);
                BTreeSet::new()
            }
        };
        concerned.extend(if judges {
            self.judge_all(&mut changed)
        } else {
            self.judge(&changed)
        });
        if !knew && self.knows_ranges() {
            // None was looked at before.
            changed.extend(self.workload_keys());
        }
        concerned.into_iter().for_each(|id| self.queue.add(id));
        changed.into_iter().for_each(|key| self.changed(key));
    }

    /// A workload is new, other than before, or gone.
    pub(super) fn changed(&mut self, key: Arc<WorkloadKey>) {
        // As long as it is not known what is the cluster's own, none is looked at.
        if self.leads && self.knows_ranges() {
            match self.store.workload(&key) {
                Some(workload) if !self.refused.contains_key(&key) => {
                    self.prober.follow(workload);
                }
                Some(_) | None => self.prober.forget(&key),
            }
        }
        self.statuses.add(key);
    }
}
