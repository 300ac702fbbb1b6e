//! Pods, and machines outside the cluster: whose addresses are no service's. Lookups alone know them.

mod servers;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use shunt_model::{Workload, WorkloadId, WorkloadKind, WorkloadUpdate};

use self::servers::Servers;
use crate::{
    objects::{labels::Labels, pod::Pod, server::Server},
    watch::step::{List, Step},
};

/// Number of pods of an event: services do not wait for a long list of them.
const AT_ONCE: usize = 256;

/// All pods and machines that are followed, and those of them that the renderer does not have as they are.
#[derive(Debug, Default)]
pub(super) struct Pods {
    known: BTreeMap<Arc<WorkloadId>, Known>,
    untold: BTreeSet<Arc<WorkloadId>>,
    servers: Servers,
}

/// A workload, and the labels by which it is selected.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) workload: Arc<Workload>,
    pub(super) labels: Labels,
}

impl Known {
    /// Returns it with the ports that Servers make opaque.
    fn by(mut self, servers: &Servers) -> Self {
        let Self { workload, labels } = &mut self;
        let ports = servers.opaque_ports(workload, labels);
        if ports != workload.policy_opaque_ports {
            Arc::make_mut(workload).policy_opaque_ports = ports;
        }
        self
    }
}

impl Pods {
    pub(super) fn put(&mut self, pod: Pod) {
        let Pod {
            id,
            workload,
            labels,
        } = pod;
        self.set(id, workload.map(|workload| Known { workload, labels }));
    }

    /// It is this now; `None`: it has no addresses any more.
    pub(super) fn set(&mut self, id: Arc<WorkloadId>, known: Option<Known>) {
        let Some(known) = known else {
            self.remove(&id);
            return;
        };
        let known = known.by(&self.servers);
        let workload = Arc::clone(&known.workload);
        let before = self.known.insert(Arc::clone(&id), known);
        if before.is_none_or(|before| before.workload != workload) {
            self.untold.insert(id);
        }
    }

    /// Takes note of Servers, and of the ports that are opaque by them.
    pub(super) fn take_servers(&mut self, step: Step<Server>) {
        for namespace in self.servers.take(step) {
            for kind in [WorkloadKind::Pod, WorkloadKind::ExternalWorkload] {
                for id in self.of_namespace(kind, &namespace) {
                    let known = self.known.get(&id).cloned();
                    self.set(id, known);
                }
            }
        }
    }

    fn of_namespace(&self, kind: WorkloadKind, namespace: &str) -> Vec<Arc<WorkloadId>> {
        let first = WorkloadId {
            kind,
            namespace: namespace.into(),
            name: Box::default(),
        };
        let from_there = self.known.range(first..).map(|(id, _)| id);
        let own = from_there.take_while(|id| id.kind == kind && *id.namespace == *namespace);
        own.cloned().collect()
    }

    pub(super) fn remove(&mut self, id: &Arc<WorkloadId>) {
        if self.known.remove(id).is_some() {
            self.untold.insert(Arc::clone(id));
        }
    }

    /// These are all pods that there are.
    pub(super) fn list(&mut self, list: List<Pod>) {
        let present = list.objects.iter().map(|pod| Arc::clone(&pod.id));
        let present: BTreeSet<_> = present.collect();
        let pods = self.known.keys();
        let pods = pods.filter(|id| id.kind == WorkloadKind::Pod);
        let known = pods.filter(|id| !present.contains(*id));
        let known = known.filter(|id| !list.keeps(&id.namespace, &id.name));
        let gone: Vec<_> = known.cloned().collect();
        gone.iter().for_each(|id| self.remove(id));
        list.objects.into_iter().for_each(|pod| self.put(pod));
    }

    /// Returns all of them, which the renderer gets now.
    pub(super) fn all(&mut self) -> Vec<Arc<Workload>> {
        self.untold.clear();
        let known = self.known.values();
        known.map(|known| Arc::clone(&known.workload)).collect()
    }

    /// Returns whether the renderer is to get some.
    pub(super) fn differ(&self) -> bool {
        !self.untold.is_empty()
    }

    /// Returns those that the renderer gets now.
    pub(super) fn some(&mut self) -> WorkloadUpdate {
        let mut update = WorkloadUpdate::default();
        while update.workloads.len() + update.gone.len() < AT_ONCE
            && let Some(id) = self.untold.pop_first()
        {
            match self.known.get(&id) {
                Some(known) => update.workloads.push(Arc::clone(&known.workload)),
                None => update.gone.push((*id).clone()),
            }
        }
        update
    }

    /// Notes that the event on these did not reach the renderer.
    pub(super) fn tell_again(&mut self, ids: Vec<Arc<WorkloadId>>) {
        self.untold.extend(ids);
    }
}
