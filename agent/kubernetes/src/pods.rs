//! Pods, and machines outside the cluster: whose addresses are no service's. Lookups alone know them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use shunt_model::{Workload, WorkloadId, WorkloadKind, WorkloadUpdate};

use crate::{objects::pod::Pod, watch::step::List};

/// Number of pods of an event: services do not wait for a long list of them.
const AT_ONCE: usize = 256;

/// All pods and machines that are followed, and those of them that the renderer does not have as they are.
#[derive(Debug, Default)]
pub(super) struct Pods {
    known: BTreeMap<Arc<WorkloadId>, Arc<Workload>>,
    untold: BTreeSet<Arc<WorkloadId>>,
}

impl Pods {
    pub(super) fn put(&mut self, pod: Pod) {
        let Pod { id, workload } = pod;
        self.set(id, workload);
    }

    /// It is this now; `None`: it has no addresses any more.
    pub(super) fn set(&mut self, id: Arc<WorkloadId>, workload: Option<Arc<Workload>>) {
        let Some(workload) = workload else {
            self.remove(&id);
            return;
        };
        if self.known.get(&id) != Some(&workload) {
            self.known.insert(Arc::clone(&id), workload);
            self.untold.insert(id);
        }
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
        self.known.values().cloned().collect()
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
                Some(workload) => update.workloads.push(Arc::clone(workload)),
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
