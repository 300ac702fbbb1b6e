//! Pods and machines outside the cluster come, and the renderer gets them.

use std::sync::Arc;

use shunt_model::RendererEvent;
use shunt_runtime::Circumstances;

use crate::{
    engine::{
        About, Engine, Work,
        take::{follow, heard},
    },
    failures::General,
    links::Link,
    objects::{
        custom::CustomKind,
        external_workload::{ExternalWorkload, Group},
        pod::Pod,
        server::Server,
    },
    watch::step::Step,
};

impl Engine {
    /// Takes note of pods. The first event does not wait for them: nothing is translated for them.
    pub(super) fn pod(&mut self, step: Step<Pod>) {
        let link = self.links.pods.get_or_insert_with(Link::default);
        follow("Pods", link, &self.monitor, &step);
        match step {
            Step::Listed(list) => self.pods.list(list),
            Step::Applied(pod) => self.pods.put(pod),
            Step::Deleted(pod) => self.pods.remove(&pod.id),
            Step::Unreadable(_) | Step::Alive | Step::Lost(_) | Step::Absent(_) => {}
        }
    }

    /// Takes note of machines outside the cluster, which nothing waits for, either.
    pub(super) fn machine(&mut self, group: Group, step: Step<ExternalWorkload>) {
        heard(&self.monitor, &step);
        if self.links.custom.follow(group.kind(), &step) {
            self.machines.take(group, step, &mut self.pods);
        }
    }

    /// Takes note of Servers of linkerd, which concern pods and machines.
    pub(super) fn server(&mut self, step: Step<Server>) {
        heard(&self.monitor, &step);
        if self.links.custom.follow(CustomKind::Server, &step) {
            self.pods.take_servers(step);
        }
    }

    /// Returns the event on pods for the renderer, when there is nothing to translate.
    pub(super) fn tell_of_pods(&mut self) -> Option<Work> {
        let differs = self.pods.differ();
        if !self.failures.is_due(General::Pods, differs) {
            return None;
        }
        let update = self.pods.some();
        let new = update.workloads.iter().map(|new| Arc::clone(&new.id));
        let gone = update.gone.iter().map(|id| Arc::new(id.clone()));
        Some(Work {
            about: About::Pods(new.chain(gone).collect()),
            event: RendererEvent::UpdateWorkloads(update),
            circumstances: Circumstances {
                routine: true,
                ..Circumstances::default()
            },
        })
    }
}
