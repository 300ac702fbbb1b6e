//! Queries that wait for a hint that something may be new.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::sleep};

/// So many services are looked at in each of these times while all of them are.
const PORTION: usize = 20;
const PORTION_TIME: Duration = Duration::from_millis(6);

/// Queries that wait for a hint, by what concerns them.
#[derive(Debug, Default)]
pub(in crate::consul) struct Hinted(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Number of queries that ever waited.
    begun: u64,
    waiting: HashMap<u64, Waiting>,
    services: Concerned,
    nodes: Concerned,
    /// Number of times that the sources of hints have lost contact.
    losses: u64,
}

/// A query that waits.
#[derive(Debug)]
struct Waiting {
    notify: Arc<Notify>,
    /// The service that is asked for, in lower case: services of one name are looked at together.
    service: Box<str>,
    /// The names of all services that concern it, in lower case.
    services: BTreeSet<Box<str>>,
    nodes: BTreeSet<Box<str>>,
}

/// Numbers of the queries that a name concerns.
#[derive(Debug, Default)]
struct Concerned(HashMap<Box<str>, BTreeSet<u64>>);

impl Concerned {
    /// These names, in place of those before, concern the query with this number.
    fn replace(&mut self, number: u64, before: &BTreeSet<Box<str>>, names: &BTreeSet<Box<str>>) {
        let Self(all) = self;
        for name in before.difference(names) {
            if let Some(numbers) = all.get_mut(name) {
                numbers.remove(&number);
                if numbers.is_empty() {
                    all.remove(name);
                }
            }
        }
        for name in names.difference(before) {
            all.entry(name.clone()).or_default().insert(number);
        }
    }
}

/// A query that waits for hints.
#[derive(Debug)]
pub(in crate::consul) struct Waiter {
    hinted: Arc<Hinted>,
    number: u64,
    notify: Arc<Notify>,
    /// The losses of contact that it knows of.
    losses: u64,
}

impl Waiter {
    /// Waits for a hint.
    pub(super) async fn hinted(&self) {
        self.notify.notified().await;
    }

    /// These services and nodes, beside the service that it asks for, concern it from now on, and no others.
    pub(super) fn is_concerned<'a>(
        &self,
        services: impl Iterator<Item = &'a str>,
        nodes: impl Iterator<Item = &'a str>,
    ) {
        let State {
            waiting,
            services: by_service,
            nodes: by_node,
            ..
        } = &mut *self.hinted.state();
        let Some(waiting) = waiting.get_mut(&self.number) else {
            return;
        };
        let mut services: BTreeSet<Box<str>> =
            services.map(|name| name.to_lowercase().into()).collect();
        services.insert(waiting.service.clone());
        let nodes = nodes.map(Box::from).collect();
        by_service.replace(self.number, &waiting.services, &services);
        by_node.replace(self.number, &waiting.nodes, &nodes);
        (waiting.services, waiting.nodes) = (services, nodes);
    }

    /// Returns whether the sources of hints have lost contact since the last call.
    pub(super) fn notice_loss(&mut self) -> bool {
        let losses = self.hinted.state().losses;
        std::mem::replace(&mut self.losses, losses) != losses
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let State {
            waiting,
            services,
            nodes,
            ..
        } = &mut *self.hinted.state();
        if let Some(gone) = waiting.remove(&self.number) {
            let none = BTreeSet::new();
            services.replace(self.number, &gone.services, &none);
            nodes.replace(self.number, &gone.nodes, &none);
        }
    }
}

impl Hinted {
    /// Adds a query that waits for hints of a service.
    pub(in crate::consul) fn add(self: &Arc<Self>, service: &str) -> Waiter {
        let mut state = self.state();
        state.begun += 1;
        let number = state.begun;
        let notify = Arc::new(Notify::new());
        let service: Box<str> = service.to_lowercase().into();
        let services = BTreeSet::from([service.clone()]);
        let none = BTreeSet::new();
        state.services.replace(number, &none, &services);
        let waiting = Waiting {
            notify: Arc::clone(&notify),
            service,
            services,
            nodes: none,
        };
        state.waiting.insert(number, waiting);
        Waiter {
            hinted: Arc::clone(self),
            number,
            notify,
            losses: state.losses,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        let Self(state) = self;
        state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something of a service may be new; its name is in lower case.
    pub(super) fn hint(&self, service: &str) {
        let state = self.state();
        state.notify(state.services.0.get(service));
    }

    /// Something of a node may be new.
    pub(super) fn hint_node(&self, node: &str) {
        let state = self.state();
        state.notify(state.nodes.0.get(node));
    }

    /// Notes that contact was lost: the answers of services after it may not be complete yet.
    pub(super) fn lose(&self) {
        self.state().losses += 1;
    }

    /// Has all services looked at, at a bounded rate.
    pub(super) async fn sweep(&self) {
        let all: BTreeSet<(Box<str>, u64)> = {
            let state = self.state();
            let waiting = state.waiting.iter();
            waiting
                .map(|(number, waiting)| (waiting.service.clone(), *number))
                .collect()
        };
        for (place, (_, number)) in all.iter().enumerate() {
            if place % PORTION == PORTION - 1 {
                sleep(PORTION_TIME).await;
            }
            if let Some(waiting) = self.state().waiting.get(number) {
                waiting.notify.notify_one();
            }
        }
    }

    #[cfg(test)]
    fn size(&self) -> [usize; 3] {
        let state = self.state();
        [
            state.waiting.len(),
            state.services.0.len(),
            state.nodes.0.len(),
        ]
    }
}

impl State {
    fn notify(&self, numbers: Option<&BTreeSet<u64>>) {
        let waiting = numbers.into_iter().flatten();
        for waiting in waiting.filter_map(|number| self.waiting.get(number)) {
            waiting.notify.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn is_hinted(waiter: &Waiter) -> bool {
        waiter.hinted().now_or_never().is_some()
    }

    #[test]
    fn a_hint_is_for_those_whom_the_name_concerns() {
        let hinted = Arc::<Hinted>::default();
        let (web, mesh) = (hinted.add("Web"), hinted.add("web"));
        mesh.is_concerned(["web-sidecar-proxy"].into_iter(), ["n1"].into_iter());
        for (hint, of_web, of_mesh) in [
            ("web", true, true),
            ("web-sidecar-proxy", false, true),
            ("other", false, false),
        ] {
            hinted.hint(hint);
            assert_eq!((is_hinted(&web), is_hinted(&mesh)), (of_web, of_mesh));
        }
        hinted.hint_node("n1");
        assert_eq!((is_hinted(&web), is_hinted(&mesh)), (false, true));
    }

    #[test]
    fn an_answer_replaces_what_concerned_its_service_before() {
        let hinted = Arc::<Hinted>::default();
        let web = hinted.add("web");
        for number in 0..10_000 {
            let (proxy, node) = (format!("proxy-{number}"), format!("node-{number}"));
            web.is_concerned([&*proxy].into_iter(), [&*node].into_iter());
        }
        assert_eq!(hinted.size(), [1, 2, 1], "web, its proxy and its node");
        hinted.hint_node("node-1");
        assert!(!is_hinted(&web));
        drop(web);
        assert_eq!(hinted.size(), [0, 0, 0]);
    }

    #[test]
    fn a_loss_of_contact_is_noticed_once_by_each() {
        let hinted = Arc::<Hinted>::default();
        let (mut one, mut other) = (hinted.add("one"), hinted.add("other"));
        assert!(!one.notice_loss());
        hinted.lose();
        hinted.lose();
        assert!(one.notice_loss() && other.notice_loss());
        assert!(!one.notice_loss() && !other.notice_loss());
        assert!(!hinted.add("late").notice_loss());
    }
}
