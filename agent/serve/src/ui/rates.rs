//! Growth rates of counters, second by second: of the agent for ten minutes, of each service for
//! two.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use shunt_model::ServiceId;
use shunt_runtime::ServiceFigures;

/// Number of seconds that are remembered of each service.
const REMEMBERED: usize = 120;

/// Growth rates of a service's counters, per second.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Rate {
    /// New connections.
    pub(super) connections: f64,
    /// Rejections and drops.
    pub(super) refused: f64,
    /// Bytes of clients, if these are counted.
    pub(super) request_bytes: f64,
    /// Bytes of backends.
    pub(super) reply_bytes: f64,
}

/// Counts of a service, all its ports together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Sum {
    connections: u64,
    refused: u64,
    request_bytes: u64,
    reply_bytes: u64,
}

/// One look at all services.
#[derive(Debug)]
struct Sample {
    number: u64,
    /// Time of the look, in milliseconds since 1970.
    at: u64,
    /// True if there was a look shortly before, without which nothing is a rate.
    is_rate: bool,
    /// Services at which anything happens.
    rates: HashMap<Arc<ServiceId>, Rate>,
}

/// Rates that were found lately.
#[derive(Debug, Default)]
pub(super) struct ServiceRates {
    samples: VecDeque<Sample>,
    next: u64,
    sums: HashMap<Arc<ServiceId>, Sum>,
    looked: Option<Instant>,
}

impl ServiceRates {
    /// Notes what is counted now.
    pub(super) fn note(&mut self, figures: &[ServiceFigures], at: u64, now: Instant) {
        let mut sums = HashMap::<Arc<ServiceId>, Sum>::with_capacity(self.sums.len());
        for figures in figures {
            sums.entry(Arc::clone(&figures.service))
                .or_default()
                .add(figures);
        }
        let passed = self.looked.map(|looked| now.duration_since(looked));
        let rates = sums.iter().filter_map(|(service, sum)| {
            // What is counted from now on has been nothing so far.
            let before = self.sums.get(service)?;
            let rate = Rate::between(before, sum, passed?);
            (rate != Rate::default()).then(|| (Arc::clone(service), rate))
        });
        let rates = rates.collect();
        self.sums = sums;
        self.looked = Some(now);
        self.next += 1;
        if self.samples.len() == REMEMBERED {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample {
            number: self.next,
            at,
            is_rate: passed.is_some(),
            rates,
        });
    }

    /// No page looks: what is counted meanwhile is no rate of a second.
    pub(super) fn pause(&mut self) {
        self.looked = None;
    }

    /// Returns the age of the last look.
    pub(super) fn age(&self, now: Instant) -> Option<Duration> {
        self.looked.map(|looked| now.duration_since(looked))
    }

    /// The number of the last look; 0: there was none.
    pub(super) const fn number(&self) -> u64 {
        self.next
    }

    /// Returns the rates of a service's counters now.
    pub(super) fn of(&self, service: &ServiceId) -> Rate {
        let last = self.samples.back();
        let rate = last.and_then(|sample| sample.rates.get(service));
        rate.copied().unwrap_or_default()
    }

    /// The services whose rates are not what they were at that look, with what they are now. `None` if that
    /// is not remembered: then all have to be sent.
    pub(super) fn since(&self, number: u64) -> Option<Vec<(&Arc<ServiceId>, Rate)>> {
        let then = self.samples.iter().find(|sample| sample.number == number)?;
        let now = self.samples.back()?;
        let moved = now.rates.iter().filter(|(service, rate)| {
            then.rates.get(*service).copied().unwrap_or_default() != **rate
        });
        let ended = then
            .rates
            .keys()
            .filter(|service| !now.rates.contains_key(*service));
        let moved = moved.map(|(service, rate)| (service, *rate));
        Some(
            moved
                .chain(ended.map(|service| (service, Rate::default())))
                .collect(),
        )
    }

    /// All services at which anything happens now.
    pub(super) fn now(&self) -> Vec<(&Arc<ServiceId>, Rate)> {
        let last = self.samples.back();
        let rates = last.into_iter().flat_map(|sample| &sample.rates);
        rates.map(|(service, rate)| (service, *rate)).collect()
    }

    /// Returns what is remembered of a service: a line for each second.
    pub(super) fn series(&self, service: &ServiceId) -> Vec<Value> {
        let samples = self.samples.iter().filter(|sample| sample.is_rate);
        let line = |sample: &Sample| {
            let rate = sample.rates.get(service).copied().unwrap_or_default();
            let mut line = vec![json!(sample.at)];
            line.extend(rate.shown());
            Value::Array(line)
        };
        samples.map(line).collect()
    }
}

impl Sum {
    fn add(&mut self, figures: &ServiceFigures) {
        let counters = &figures.counters;
        self.connections += counters.connections;
        self.refused += counters.refused.values().sum::<u64>();
        if let Some(traffic) = counters.traffic {
            self.request_bytes += traffic.request_bytes;
            self.reply_bytes += traffic.reply_bytes;
        }
    }
}

impl Rate {
    fn between(before: &Sum, after: &Sum, passed: Duration) -> Self {
        let rate = |before, after| rate(before, after, passed);
        Self {
            connections: rate(before.connections, after.connections),
            refused: rate(before.refused, after.refused),
            request_bytes: rate(before.request_bytes, after.request_bytes),
            reply_bytes: rate(before.reply_bytes, after.reply_bytes),
        }
    }

    /// In the order of the page.
    pub(super) fn shown(self) -> [Value; 4] {
        let Self {
            connections,
            refused,
            request_bytes,
            reply_bytes,
        } = self;
        [connections, refused, request_bytes, reply_bytes].map(Value::from)
    }
}

/// Returns the rate per second, to a tenth. A counter that was begun anew has not grown.
pub(super) fn rate(before: u64, after: u64, passed: Duration) -> f64 {
    let grown = after.saturating_sub(before) as f64;
    let seconds = passed.as_secs_f64().max(0.001);
    (10.0 * grown / seconds).round() / 10.0
}

#[cfg(test)]
mod tests {
    use shunt_api::view::ServiceCounters;

    use super::*;

    fn figures(counts: &[(&str, u64)]) -> Vec<ServiceFigures> {
        let figures = counts.iter().map(|(name, connections)| ServiceFigures {
            service: Arc::new(ServiceId::new("default", name)),
            port: "http".into(),
            counters: ServiceCounters {
                connections: *connections,
                ..ServiceCounters::default()
            },
        });
        figures.collect()
    }

    fn shown(rates: Vec<(&Arc<ServiceId>, Rate)>) -> Vec<(String, f64)> {
        let mut shown: Vec<_> = rates
            .into_iter()
            .map(|(service, rate)| (service.to_string(), rate.connections))
            .collect();
        shown.sort_by(|a, b| a.0.cmp(&b.0));
        shown
    }

    #[test]
    fn only_rates_that_have_changed_are_told() {
        let mut rates = ServiceRates::default();
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        rates.note(&figures(&[("a", 100), ("b", 5), ("c", 0)]), 0, at(0));
        assert_eq!(shown(rates.now()), []);
        rates.note(&figures(&[("a", 110), ("b", 6), ("c", 0)]), 1, at(1));
        let of = |name: &str, rate| (format!("default/{name}"), rate);
        assert_eq!(shown(rates.now()), [of("a", 10.0), of("b", 1.0)]);
        rates.note(
            &figures(&[("a", 120), ("b", 6), ("c", 4), ("d", 9)]),
            3,
            at(2),
        );
        assert_eq!(shown(rates.since(2).unwrap()), [of("b", 0.0), of("c", 4.0)]);
        assert_eq!(shown(rates.since(3).unwrap()), []);
        assert_eq!(rates.since(99), None);
        assert_eq!(rates.series(&ServiceId::new("default", "b")).len(), 2);
    }

    #[test]
    fn while_nobody_looks_nothing_is_a_rate() {
        let mut rates = ServiceRates::default();
        let start = Instant::now();
        rates.note(&figures(&[("a", 0)]), 0, start);
        rates.pause();
        rates.note(
            &figures(&[("a", 1000)]),
            1,
            start + Duration::from_secs(1000),
        );
        assert_eq!(shown(rates.now()), []);
    }

    #[test]
    fn a_counter_that_begins_anew_has_not_grown() {
        let rates = (
            rate(10, 3, Duration::from_secs(1)),
            rate(0, 3, Duration::from_secs(2)),
        );
        assert_eq!(rates, (0.0, 1.5));
    }
}
