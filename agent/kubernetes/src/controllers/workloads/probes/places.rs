//! Places for probes under way: a share for each namespace, given in turn, so that no namespace waits for another's
//! silent servers.

use std::{
    collections::{HashMap, VecDeque},
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot::{self, Receiver, Sender};

/// The most probes under way at once. Each takes a file descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeLimits {
    /// Of one namespace's workloads.
    pub of_namespace: usize,
    /// Of all together.
    pub of_all: usize,
}

impl Default for ProbeLimits {
    fn default() -> Self {
        Self {
            of_namespace: 512,
            of_all: 8192,
        }
    }
}

/// The places.
#[derive(Debug)]
pub(super) struct Places {
    limits: ProbeLimits,
    taken: Mutex<Taken>,
}

/// The places that are taken, and the probes that wait for one.
#[derive(Debug, Default)]
struct Taken {
    of_all: usize,
    of_namespaces: HashMap<Box<str>, Share>,
    /// The namespaces with probes that wait, in the order of their turns.
    turns: VecDeque<Box<str>>,
}

/// One namespace's part.
#[derive(Debug, Default)]
struct Share {
    taken: usize,
    waiting: VecDeque<Sender<()>>,
}

/// A place. It is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    namespace: Box<str>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places
            .lock()
            .release(&self.namespace, self.places.limits);
    }
}

/// A probe that waits for a place.
struct Waiting {
    given: Receiver<()>,
    places: Arc<Places>,
    namespace: Box<str>,
}

impl Drop for Waiting {
    /// Gives a place back that was given and not taken.
    fn drop(&mut self) {
        if self.given.try_recv().is_ok() {
            let limits = self.places.limits;
            self.places.lock().release(&self.namespace, limits);
        }
    }
}

impl Places {
    /// All of them are free.
    pub(super) fn new(limits: ProbeLimits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            taken: Mutex::default(),
        })
    }

    /// Waits for a place for a probe of this namespace.
    pub(super) async fn take(self: &Arc<Self>, namespace: &str) -> Place {
        let (sender, given) = oneshot::channel();
        let mut waiting = Waiting {
            given,
            places: Arc::clone(self),
            namespace: namespace.into(),
        };
        self.lock().ask(namespace, sender, self.limits);
        // The sender is kept until it has given a place.
        let _ = (&mut waiting.given).await;
        Place {
            places: Arc::clone(self),
            namespace: mem::take(&mut waiting.namespace),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    fn ask(&mut self, namespace: &str, sender: Sender<()>, limits: ProbeLimits) {
        let share = self.of_namespaces.entry(namespace.into()).or_default();
        if share.waiting.is_empty() {
            self.turns.push_back(namespace.into());
        }
        share.waiting.push_back(sender);
        self.give(limits);
    }

    fn release(&mut self, namespace: &str, limits: ProbeLimits) {
        self.of_all -= 1;
        if let Some(share) = self.of_namespaces.get_mut(namespace) {
            share.taken -= 1;
            if share.taken == 0 && share.waiting.is_empty() {
                self.of_namespaces.remove(namespace);
            }
        }
        self.give(limits);
    }

    /// Gives the places that are free, one a namespace and turn.
    fn give(&mut self, limits: ProbeLimits) {
        // Turns of namespaces in a row that have their whole share.
        let mut passed = 0;
        while self.of_all < limits.of_all && passed < self.turns.len() {
            let Some(namespace) = self.turns.pop_front() else {
                return;
            };
            let Some(share) = self.of_namespaces.get_mut(&namespace) else {
                continue;
            };
            if share.taken >= limits.of_namespace {
                passed += 1;
                self.turns.push_back(namespace);
                continue;
            }
            // Those that do not wait any more are passed over.
            while let Some(sender) = share.waiting.pop_front() {
                if sender.send(()).is_ok() {
                    share.taken += 1;
                    self.of_all += 1;
                    passed = 0;
                    break;
                }
            }
            if !share.waiting.is_empty() {
                self.turns.push_back(namespace);
            } else if share.taken == 0 {
                self.of_namespaces.remove(&namespace);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::{Pin, pin},
        task::{Context, Poll, Waker},
    };

    use super::*;

    fn places(of_namespace: usize, of_all: usize) -> Arc<Places> {
        Places::new(ProbeLimits {
            of_namespace,
            of_all,
        })
    }

    fn asked<'a>(
        places: &'a Arc<Places>,
        namespace: &'a str,
    ) -> Pin<Box<dyn Future<Output = Place> + 'a>> {
        let mut place: Pin<Box<dyn Future<Output = Place> + 'a>> = Box::pin(places.take(namespace));
        assert!(
            poll(&mut place).is_none(),
            "{namespace} has a place at once"
        );
        place
    }

    fn poll(place: &mut Pin<Box<dyn Future<Output = Place> + '_>>) -> Option<Place> {
        match place.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(place) => Some(place),
            Poll::Pending => None,
        }
    }

    fn now(places: &Arc<Places>, namespace: &str) -> Place {
        let mut place = pin!(places.take(namespace));
        match place.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(place) => place,
            Poll::Pending => panic!("{namespace} has no place"),
        }
    }

    #[test]
    fn a_namespace_that_has_its_share_holds_up_no_other() {
        let places = places(2, 4);
        let mut held = vec![now(&places, "loud"), now(&places, "loud")];
        let mut third = asked(&places, "loud");
        let quiet = now(&places, "quiet");
        held.pop();
        held.extend(poll(&mut third));
        assert_eq!(held.len(), 2);
        drop((held, quiet, third));
        assert_eq!(places.lock().of_all, 0);
        assert!(places.lock().of_namespaces.is_empty() && places.lock().turns.is_empty());
    }

    #[test]
    fn free_places_are_given_in_turn() {
        let places = places(8, 2);
        let mut held = vec![now(&places, "a"), now(&places, "a")];
        let mut of_a = [asked(&places, "a"), asked(&places, "a")];
        let mut of_b = asked(&places, "b");
        held.pop();
        held.extend(poll(&mut of_a[0]));
        assert_eq!(held.len(), 2, "it was the first to wait");
        held.remove(0);
        assert!(poll(&mut of_a[1]).is_none(), "it is the turn of the other");
        held.extend(poll(&mut of_b));
        assert_eq!(held.len(), 2);
    }

    #[test]
    fn a_probe_that_waits_no_more_takes_no_place() {
        let places = places(1, 1);
        let held = now(&places, "a");
        let (gone, given) = (asked(&places, "a"), asked(&places, "b"));
        drop(gone);
        drop(held);
        // A place was given that is not taken.
        drop(given);
        drop(now(&places, "c"));
        assert_eq!(places.lock().of_all, 0);
    }
}
