//! Events of connections and packets, for as long as a page looks at them: the programs report them only
//! then.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use shunt_api::view::{FlowEvent, one_in};
use shunt_runtime::{Wanted, Watching};
use tokio::{
    sync::{Mutex, MutexGuard},
    time::timeout,
};

use crate::ui::{parameters::Parameters, sampler::Sampler};

/// Number of events that are kept for pages.
const KEPT: usize = 1000;

/// Time without a request after which the watch ends.
const LINGER: Duration = Duration::from_secs(5);

/// Interval at which that is checked.
const LOOK: Duration = Duration::from_secs(1);

/// The events of all who look.
#[derive(Debug, Default, Clone)]
pub(super) struct Events(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    events: VecDeque<(u64, Arc<FlowEvent>)>,
    /// The number of the last one. It only grows.
    last: u64,
    /// State of the watch, if there is one.
    look: Option<Look>,
}

#[derive(Debug)]
struct Look {
    /// Of one connection in so many.
    one_in: u32,
    lost: u64,
    /// Time of the last request.
    asked: Instant,
}

/// Why there are no events.
#[derive(Debug)]
pub(super) enum NoEvents {
    /// The request is wrong.
    Bad(String),
    /// The kernel does not take programs that report them, or the agent is ending.
    Failed(String),
}

/// The events after the last one that is known. The first who asks has them watched.
///
/// # Errors
///
/// There are none.
pub(super) async fn events(
    sampler: &Sampler,
    events: &Events,
    run: u64,
    parameters: &Parameters,
) -> Result<Value, NoEvents> {
    // The numbers of another run are of other events.
    let is_same = parameters.value("run").map_err(NoEvents::Bad)? == Some(run);
    let after: Option<u64> = parameters.value("after").map_err(NoEvents::Bad)?;
    let after = after.filter(|_| is_same);
    let mut kept = events.kept().await;
    let now = Instant::now();
    match &mut kept.look {
        Some(look) => look.asked = now,
        None => {
            let one_in = one_in(sampler.opened());
            let wanted = Wanted {
                one_in,
                ..Wanted::default()
            };
            // Requests that come meanwhile wait for the same.
            let watching = sampler.inspector().watch_flows(wanted).await;
            let watching = watching.map_err(|error| NoEvents::Failed(error.to_string()))?;
            kept.begin(one_in, Instant::now());
            tokio::spawn(events.clone().follow(watching));
        }
    }
    let mut shown = kept.shown(after);
    shown["run"] = run.into();
    Ok(shown)
}

impl Events {
    async fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().await
    }

    /// Keeps the events until they are not requested any more.
    async fn follow(self, mut watching: Watching) {
        loop {
            let next = timeout(LOOK, watching.next()).await;
            let mut kept = self.kept().await;
            let is_over = match next {
                Ok(Some(events)) => {
                    kept.add(events, watching.lost());
                    false
                }
                Ok(None) => true,
                // Nothing has happened.
                Err(_) => false,
            };
            if is_over || !kept.is_wanted(Instant::now()) {
                kept.look = None;
                return;
            }
        }
    }
}

impl Kept {
    /// It is watched from now on. What was seen earlier is not shown as if nothing had happened since.
    fn begin(&mut self, one_in: u32, now: Instant) {
        self.events.clear();
        self.look = Some(Look {
            one_in,
            lost: 0,
            asked: now,
        });
    }

    fn add(&mut self, events: Vec<Arc<FlowEvent>>, lost: u64) {
        for event in events {
            self.last += 1;
            self.events.push_back((self.last, event));
        }
        let over = self.events.len().saturating_sub(KEPT);
        self.events.drain(..over);
        if let Some(look) = &mut self.look {
            look.lost = lost;
        }
    }

    fn is_wanted(&self, now: Instant) -> bool {
        let look = self.look.as_ref();
        look.is_some_and(|look| now.saturating_duration_since(look.asked) < LINGER)
    }

    /// Returns what is new to a client that knows the event with this number; all if there is no such event.
    fn shown(&self, after: Option<u64>) -> Value {
        let after = after.filter(|after| *after <= self.last);
        let new = self.events.iter();
        let new = new.filter(|(number, _)| *number > after.unwrap_or(0));
        let new: Vec<&FlowEvent> = new.map(|(_, event)| &**event).collect();
        // Those that came and were replaced by later ones since the client's last request.
        let skipped = after.map_or(0, |after| self.last - after - new.len() as u64);
        let look = self.look.as_ref();
        json!({
            "events": new,
            "last": self.last,
            "one_in": look.map_or(1, |look| look.one_in),
            "lost": look.map_or(0, |look| look.lost),
            "skipped": skipped,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use shunt_api::view::{FlowKind, ProtocolNumber};

    use super::*;

    fn event(second: u64) -> Arc<FlowEvent> {
        Arc::new(FlowEvent {
            time: SystemTime::UNIX_EPOCH + Duration::from_secs(second),
            kind: FlowKind::Opened,
            reason: String::new(),
            protocol: ProtocolNumber(6),
            client: None,
            frontend: None,
            service: Some("shop/web".to_owned()),
            service_port: None,
            backend: None,
            snat_source: None,
            duration: None,
            packet: None,
        })
    }

    /// Returns the number of events, the number of the last one, and the first one's time.
    fn told(kept: &Kept, after: Option<u64>) -> (usize, u64, Option<String>) {
        let shown = kept.shown(after);
        let events = shown["events"].as_array().unwrap();
        let first = events.first().map(|event| event["time"].as_str().unwrap());
        (
            events.len(),
            shown["last"].as_u64().unwrap(),
            first.map(str::to_owned),
        )
    }

    #[test]
    fn events_that_a_page_has_missed_are_counted() {
        let (mut kept, now) = (Kept::default(), Instant::now());
        kept.begin(1, now);
        kept.add(vec![event(0); 10], 0);
        for (after, skipped) in [(None, 0), (Some(10), 0), (Some(4), 0)] {
            assert_eq!(kept.shown(after)["skipped"], skipped, "{after:?}");
        }
        kept.add(vec![event(1); KEPT + 5], 0);
        let shown = kept.shown(Some(10));
        assert_eq!(shown["events"].as_array().unwrap().len(), KEPT);
        assert_eq!(shown["skipped"], 5);
    }

    #[test]
    fn each_is_told_what_is_new_to_it() {
        let (mut kept, now) = (Kept::default(), Instant::now());
        kept.begin(1, now);
        assert_eq!(told(&kept, None), (0, 0, None));
        kept.add((0..3).map(event).collect(), 0);
        assert_eq!(told(&kept, None).0, 3);
        assert_eq!(told(&kept, Some(3)), (0, 3, None));
        kept.add(vec![event(3)], 2);
        assert_eq!(kept.shown(Some(3))["lost"], 2);
        let third = "1970-01-01T00:00:03.000000Z".to_owned();
        assert_eq!(told(&kept, Some(3)), (1, 4, Some(third)));
        assert_eq!(told(&kept, Some(5_000)).0, 4, "it has asked another agent");

        kept.add((0..KEPT as u64).map(event).collect(), 2);
        assert_eq!(told(&kept, Some(4)).0, KEPT);
        kept.begin(7, now);
        assert_eq!(told(&kept, Some(4)).0, 0, "it was not watched in between");
        assert_eq!(kept.shown(None)["one_in"], 7);
    }

    #[test]
    fn it_is_watched_while_somebody_asks() {
        let (mut kept, now) = (Kept::default(), Instant::now());
        assert!(!kept.is_wanted(now));
        kept.begin(1, now);
        assert!(kept.is_wanted(now + LINGER / 2));
        assert!(!kept.is_wanted(now + LINGER));
    }
}
