//! Those who wait for a hint that something may be new.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::sleep};

/// So many services are looked at in each of these times while all of them are.
const PORTION: usize = 20;
const PORTION_TIME: Duration = Duration::from_millis(6);

/// Those who wait for a hint, by the name of their service in lower case; services of one name are
/// looked at together.
#[derive(Debug, Default)]
pub(in crate::source::consul) struct Hinted {
    services: Mutex<BTreeMap<String, Vec<Arc<Notify>>>>,
    /// The services that have instances on each node.
    nodes: Mutex<HashMap<Box<str>, HashSet<String>>>,
}

impl Hinted {
    /// One more who waits for hints of a service.
    pub(in crate::source::consul) fn add(&self, service: &str) -> Arc<Notify> {
        let notify = Arc::new(Notify::new());
        let mut services = self.services();
        let all = services.entry(service.to_lowercase()).or_default();
        // Of those that nobody waits for any more there is only this.
        all.retain(|known| Arc::strong_count(known) > 1);
        all.push(Arc::clone(&notify));
        notify
    }

    fn services(&self) -> MutexGuard<'_, BTreeMap<String, Vec<Arc<Notify>>>> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn hint(&self, service: &str) {
        for notify in self.services().get(service).into_iter().flatten() {
            notify.notify_one();
        }
    }

    /// The service has an instance on this node.
    pub(in crate::source::consul) fn is_on<'a>(
        &self,
        service: &str,
        nodes: impl Iterator<Item = &'a str>,
    ) {
        let service = service.to_lowercase();
        let mut known = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        for node in nodes {
            if let Some(services) = known.get_mut(node) {
                if !services.contains(&service) {
                    services.insert(service.clone());
                }
            } else {
                known.insert(node.into(), [service.clone()].into());
            }
        }
    }

    /// Has all services looked at, at a bounded rate.
    pub(super) async fn sweep(&self) {
        let names: Vec<String> = self.services().keys().cloned().collect();
        for (number, service) in names.iter().enumerate() {
            if number % PORTION == PORTION - 1 {
                sleep(PORTION_TIME).await;
            }
            self.hint(service);
        }
    }

    pub(super) fn hint_node(&self, node: &str) {
        let known = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        for service in known.get(node).into_iter().flatten() {
            self.hint(service);
        }
    }
}
