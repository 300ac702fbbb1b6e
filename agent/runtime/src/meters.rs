//! Meters that are updated where things happen: counters and histograms, each a few atomic additions.

use std::{
    sync::atomic::AtomicU64,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use prometheus_client::metrics::{
    counter::Counter,
    family::Family,
    gauge::Gauge,
    histogram::{Histogram, exponential_buckets},
};
use shunt_model::EventKind;

use crate::{
    circumstances::Trigger, flow_meters::FlowMeters, ip_family::IpFamily, rest_client::RestClient,
};

/// One label and its value.
pub type Label = [(&'static str, &'static str); 1];

/// Two of them.
pub type Labels = [(&'static str, &'static str); 2];

/// Histograms, one a label.
pub(crate) type Histograms = Family<Label, Histogram, fn() -> Histogram>;

/// A time in seconds since 1970.
pub(crate) type Timestamp = Gauge<f64, AtomicU64>;

/// Outcome of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Applied,
    Refused,
    Held,
}

impl Fate {
    pub(crate) const ALL: [Self; 3] = [Self::Applied, Self::Refused, Self::Held];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Refused => "refused",
            Self::Held => "held",
        }
    }
}

/// Outcome of a Kubernetes Event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// The API server has it.
    Published,
    /// The API server did not take it.
    Failed,
    /// There were too many.
    Dropped,
}

impl Told {
    const ALL: [Self; 3] = [Self::Published, Self::Failed, Self::Dropped];

    /// Name of the outcome in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Published => "published",
            Self::Failed => "failed",
            Self::Dropped => "dropped",
        }
    }
}

/// The answers of health servers.
const CODES: [&str; 2] = ["200", "503"];

/// An event that is no event: a line that cannot be read.
const MALFORMED: &str = "malformed";

/// The meters. Those of kube-proxy's names have its labels and buckets.
#[derive(Debug)]
pub struct Meters {
    /// From the change of an endpoint to the end of the event that brought it.
    pub network_programming: Histograms,
    /// One event, from its plan to its last write.
    pub sync: Histograms,
    /// A Resync.
    pub full_sync: Histograms,
    /// Any other event.
    pub partial_sync: Histograms,
    /// Time at which the last event was applied.
    pub last_sync: Family<Label, Timestamp>,
    /// Time at which the last event was put into the queue.
    pub last_queued: Family<Label, Timestamp>,
    /// Changes of endpoints that the cluster's source has received.
    pub endpoint_changes: Counter,
    /// Changes of services that the cluster's source has received.
    pub service_changes: Counter,
    /// Answers of `/healthz`, by status.
    pub healthz: Family<Label, Counter>,
    /// Answers of `/livez`, by status.
    pub livez: Family<Label, Counter>,
    /// The same as `sync`, by event and with buckets for microseconds.
    pub event_duration: Histograms,
    /// Events, by kind and outcome.
    pub events: Family<Labels, Counter>,
    /// Writes of events to the kernel's tables.
    pub writes: Counter,
    /// Kubernetes Events.
    pub told: Family<Label, Counter>,
    /// Requests to the API server.
    pub rest_client: RestClient,
    /// Meters of connections and packets that are watched.
    pub flows: FlowMeters,
    /// Triggers from before are of no interest: an earlier agent has seen them, or none has.
    pub started: SystemTime,
}

fn by_family(family: IpFamily) -> Label {
    [("ip_family", family.name())]
}

fn by_event(kind: EventKind) -> Label {
    [("event", kind.name())]
}

/// kube-proxy's buckets of a sync.
fn sync_histogram() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 15))
}

/// kube-proxy's buckets of a change's way: the first ones are fine, and those beyond a minute
/// are coarse.
fn network_programming_histogram() -> Histogram {
    let seconds = (1..60)
        .chain((60..=115).step_by(5))
        .chain((120..=300).step_by(30));
    let seconds = seconds.map(f64::from);
    Histogram::new([0.25, 0.5].into_iter().chain(seconds))
}

/// From ten microseconds to some ten seconds.
fn event_histogram() -> Histogram {
    Histogram::new(exponential_buckets(0.000_01, 2.0, 21))
}

impl Default for Meters {
    /// With a series for each label that can be, so that a rate is known from the first change on.
    fn default() -> Self {
        let histograms = |new: fn() -> Histogram| {
            let histograms = Histograms::new_with_constructor(new);
            for family in IpFamily::ALL {
                drop(histograms.get_or_create(&by_family(family)));
            }
            histograms
        };
        let timestamps = || {
            let timestamps = Family::<Label, Timestamp>::default();
            for family in IpFamily::ALL {
                drop(timestamps.get_or_create(&by_family(family)));
            }
            timestamps
        };
        let codes = || {
            let answers = Family::<Label, Counter>::default();
            for code in CODES {
                drop(answers.get_or_create(&[("code", code)]));
            }
            answers
        };
        let event_duration = Histograms::new_with_constructor(event_histogram);
        let events = Family::<Labels, Counter>::default();
        for kind in EventKind::ALL {
            drop(event_duration.get_or_create(&by_event(kind)));
            for fate in Fate::ALL {
                drop(events.get_or_create(&[("event", kind.name()), ("result", fate.name())]));
            }
        }
        let refused = [("event", MALFORMED), ("result", Fate::Refused.name())];
        drop(events.get_or_create(&refused));
        let told = Family::<Label, Counter>::default();
        for outcome in Told::ALL {
            drop(told.get_or_create(&[("result", outcome.name())]));
        }
        Self {
            network_programming: histograms(network_programming_histogram),
            sync: histograms(sync_histogram),
            full_sync: histograms(sync_histogram),
            partial_sync: histograms(sync_histogram),
            last_sync: timestamps(),
            last_queued: timestamps(),
            endpoint_changes: Counter::default(),
            service_changes: Counter::default(),
            healthz: codes(),
            livez: codes(),
            event_duration,
            events,
            writes: Counter::default(),
            told,
            rest_client: RestClient::default(),
            flows: FlowMeters::default(),
            started: SystemTime::now(),
        }
    }
}

impl Meters {
    /// An event was put into the queue.
    pub(super) fn queued(&self, at: SystemTime) {
        set(&self.last_queued, &IpFamily::ALL, at);
    }

    /// An event was applied, which took so long and so many writes; it concerns these families.
    pub(super) fn applied(
        &self,
        kind: EventKind,
        families: &[IpFamily],
        took: Duration,
        writes: u64,
    ) {
        self.count(Some(kind), Fate::Applied);
        self.writes.inc_by(writes);
        let took = took.as_secs_f64();
        self.event_duration
            .get_or_create(&by_event(kind))
            .observe(took);
        let part = match kind {
            EventKind::Resync => &self.full_sync,
            _ => &self.partial_sync,
        };
        for family in families {
            for histograms in [&self.sync, part] {
                histograms.get_or_create(&by_family(*family)).observe(took);
            }
        }
        set(&self.last_sync, families, SystemTime::now());
    }

    /// Observes that the effects of endpoints' changes are in force at `now`.
    pub(super) fn programmed(&self, triggers: &[Trigger], now: SystemTime) {
        for Trigger { family, at } in triggers {
            // A clock ahead of ours is no reason to count nothing.
            let took = now.duration_since(*at).unwrap_or_default();
            if *at >= self.started {
                let label = by_family(*family);
                let histogram = self.network_programming.get_or_create(&label);
                histogram.observe(took.as_secs_f64());
            }
        }
    }

    /// An event had this fate; `None`: it could not even be read.
    pub(super) fn count(&self, kind: Option<EventKind>, fate: Fate) {
        let event = kind.map_or(MALFORMED, EventKind::name);
        let labels = [("event", event), ("result", fate.name())];
        self.events.get_or_create(&labels).inc();
    }

    /// A Kubernetes Event was made, or not.
    pub fn told(&self, outcome: Told) {
        self.told.get_or_create(&[("result", outcome.name())]).inc();
    }

    /// `/healthz` was answered.
    pub fn answered_healthz(&self, is_well: bool) {
        answered(&self.healthz, is_well);
    }

    /// `/livez` was answered.
    pub fn answered_livez(&self, is_well: bool) {
        answered(&self.livez, is_well);
    }
}

fn answered(answers: &Family<Label, Counter>, is_well: bool) {
    let [well, ill] = CODES;
    let code = if is_well { well } else { ill };
    answers.get_or_create(&[("code", code)]).inc();
}

fn set(timestamps: &Family<Label, Timestamp>, families: &[IpFamily], at: SystemTime) {
    let seconds = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    for family in families {
        let label = by_family(*family);
        timestamps.get_or_create(&label).set(seconds.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::{encoding::text, registry::Registry};

    use super::*;

    #[test]
    fn a_change_is_measured_in_its_family_if_it_is_no_older_than_the_agent() {
        let meters = Meters::default();
        let at = |seconds| meters.started + Duration::from_secs(seconds);
        let before = meters.started - Duration::from_secs(1);
        let trigger = |family, at| Trigger { family, at };
        meters.programmed(
            &[
                trigger(IpFamily::V4, at(1)),
                trigger(IpFamily::V4, at(9)),
                trigger(IpFamily::V4, before),
                trigger(IpFamily::V6, at(20)),
            ],
            at(10),
        );
        let mut registry = Registry::default();
        registry.register("took", "", meters.network_programming.clone());
        let mut shown = String::new();
        text::encode(&mut shown, &registry).unwrap();
        for line in [
            r#"took_sum{ip_family="IPv4"} 10.0"#,
            r#"took_count{ip_family="IPv4"} 2"#,
            r#"took_bucket{le="1.0",ip_family="IPv4"} 1"#,
            r#"took_bucket{le="9.0",ip_family="IPv4"} 2"#,
            // Its clock is ahead of ours.
            r#"took_sum{ip_family="IPv6"} 0.0"#,
            r#"took_count{ip_family="IPv6"} 1"#,
        ] {
            assert!(shown.lines().any(|shown| shown == line), "{line}\n{shown}");
        }
    }

    #[test]
    fn the_buckets_are_kube_proxys() {
        let meters = Meters::default();
        let mut registry = Registry::default();
        registry.register("took", "", meters.network_programming.clone());
        registry.register("sync", "", meters.sync.clone());
        let mut shown = String::new();
        text::encode(&mut shown, &registry).unwrap();
        let buckets = |name: &str| {
            let lines = shown.lines().filter(|line| line.contains("IPv4"));
            let prefix = format!("{name}_bucket{{le=\"");
            let of_name = lines.filter_map(|line| line.strip_prefix(&*prefix));
            let bounds = of_name.map(|rest| rest.split('"').next().unwrap_or_default());
            bounds.map(str::to_owned).collect::<Vec<_>>()
        };
        let took = buckets("took");
        // 0.25, 0.5, each second up to a minute, each five up to two, each thirty up to five; +Inf.
        assert_eq!(took.len(), 2 + 59 + 12 + 7 + 1, "{took:?}");
        assert_eq!(took[..4], ["0.25", "0.5", "1.0", "2.0"]);
        assert_eq!(took[took.len() - 2..], ["300.0", "+Inf"]);
        let sync = buckets("sync");
        assert_eq!(sync.len(), 15 + 1);
        assert_eq!((&*sync[0], &*sync[14]), ("0.001", "16.384"));
    }
}
