//! Number of connections that each backend is chosen for. For that the tables are read back, so it is done only while a
//! client looks at backends, and the less often the longer it takes.

use std::{
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use shunt_model::ServiceId;
use shunt_runtime::{FrontendList, Inspector};
use tokio::{sync::Mutex, time::timeout};
use tracing::debug;

use crate::ui::rates::rate;

/// Maximum age of what is shown.
const FRESH: Duration = Duration::from_millis(1500);

/// Of the time, one part of so many is spent on it at most.
const PARTS: u32 = 20;

/// Maximum time between two looks; a count between two that are further apart gives no rate of now.
const LATELY: Duration = Duration::from_secs(10);

/// Time to wait for the event loop.
const PATIENCE: Duration = Duration::from_secs(3);

/// A backend's connections.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Chosen {
    /// For how many it was chosen.
    pub(super) total: u64,
    /// For how many a second; `None` if that is not known yet.
    pub(super) rate: Option<f64>,
}

/// By service, and there by the name of the port and the backend's address.
pub(super) type ChosenOf = HashMap<Arc<ServiceId>, BTreeMap<(Arc<str>, SocketAddr), Chosen>>;

/// The last look.
#[derive(Debug, Default)]
struct Look {
    at: Option<Instant>,
    /// Time that it took.
    took: Duration,
    found: Arc<ChosenOf>,
}

impl Look {
    /// For how long it is the last one.
    fn holds(&self) -> Duration {
        FRESH.max(self.took * PARTS)
    }

    /// Takes note of what was found since `begun`.
    fn note(&mut self, mut found: ChosenOf, begun: Instant, took: Duration) {
        let passed = self.at.map(|at| begun.duration_since(at));
        let passed = passed.filter(|passed| *passed <= LATELY.max(2 * self.holds()));
        for (service, backends) in &mut found {
            for (place, chosen) in backends {
                let before = self.found.get(service).and_then(|then| then.get(place));
                chosen.rate = passed.map(|passed| {
                    // One that is new has had nothing before.
                    let before = before.map_or(chosen.total, |before| before.total);
                    rate(before, chosen.total, passed)
                });
            }
        }
        *self = Self {
            at: Some(begun),
            took,
            found: Arc::new(found),
        };
    }
}

/// Connections of backends.
#[derive(Debug, Default)]
pub(super) struct ChosenBackends(Mutex<Look>);

impl ChosenBackends {
    /// As it is now, or was a moment ago. What cannot be read is not there.
    pub(super) async fn now(&self, inspector: &Inspector) -> Arc<ChosenOf> {
        // Who comes meanwhile waits for the same look.
        let mut look = self.0.lock().await;
        if look.at.is_some_and(|at| at.elapsed() < look.holds()) {
            return Arc::clone(&look.found);
        }
        let begun = Instant::now();
        match timeout(PATIENCE, inspector.frontends(|_| true)).await {
            Ok(Ok(list)) => look.note(chosen(&list), begun, begun.elapsed()),
            Ok(Err(error)) => debug!(%error, "the backends' connections are not seen"),
            Err(_) => debug!("the event loop has no time for the backends' connections"),
        }
        Arc::clone(&look.found)
    }
}

fn chosen(list: &FrontendList) -> ChosenOf {
    let mut all = ChosenOf::new();
    for frontend in &list.frontends {
        let Some((service, port)) = frontend.service_port() else {
            continue;
        };
        let backends = all.entry(Arc::clone(service)).or_default();
        for (at, total) in frontend.chosen() {
            // Each frontend of a service port has the same.
            let known = backends.entry((Arc::clone(port), at)).or_default();
            known.total = known.total.max(total);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(total: u64) -> ChosenOf {
        let service = Arc::new(ServiceId::new("default", "web"));
        let at = ([10, 1, 1, 3], 8080).into();
        let chosen = Chosen { total, rate: None };
        HashMap::from([(service, BTreeMap::from([(("http".into(), at), chosen)]))])
    }

    fn rate_of(look: &Look) -> Option<f64> {
        let mut backends = look.found.values().flat_map(BTreeMap::values);
        backends.next().unwrap().rate
    }

    #[test]
    fn a_rate_is_of_two_looks_shortly_after_each_other() {
        let (mut look, begin) = (Look::default(), Instant::now());
        let after = |seconds| begin + Duration::from_secs(seconds);
        look.note(found(100), begin, Duration::ZERO);
        assert_eq!(rate_of(&look), None, "there was one look");
        look.note(found(110), after(2), Duration::ZERO);
        assert_eq!(rate_of(&look), Some(5.0));
        look.note(found(999), after(60), Duration::ZERO);
        assert_eq!(rate_of(&look), None, "nobody has looked meanwhile");
        look.note(HashMap::new(), after(61), Duration::ZERO);
        look.note(found(1000), after(62), Duration::ZERO);
        assert_eq!(rate_of(&look), Some(0.0), "it is new");
    }

    #[test]
    fn a_look_that_takes_long_holds_longer() {
        let mut look = Look::default();
        assert_eq!(look.holds(), FRESH);
        look.note(HashMap::new(), Instant::now(), Duration::from_millis(500));
        assert_eq!(look.holds(), Duration::from_secs(10));
    }
}
