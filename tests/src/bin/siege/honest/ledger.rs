//! Results of clients of a kind.

use std::time::Duration;

/// A failure, and its time.
#[derive(Debug, Clone)]
pub(crate) struct Failed {
    /// Time of its begin, from the begin of the siege.
    pub(crate) at: Duration,
    /// Time until it failed.
    pub(crate) took: Duration,
    pub(crate) reason: String,
}

/// Results of clients of a kind.
#[derive(Debug)]
pub(crate) struct Ledger {
    name: &'static str,
    repeats: u64,
    microseconds: Vec<u32>,
    failures: Vec<Failed>,
}

impl Ledger {
    pub(super) const fn new(name: &'static str) -> Self {
        Self {
            name,
            repeats: 0,
            microseconds: Vec::new(),
            failures: Vec::new(),
        }
    }

    /// The kind.
    pub(crate) const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the number of operations that went well.
    pub(crate) fn count(&self) -> u64 {
        self.microseconds.len() as u64
    }

    /// Returns the number of repeated sends.
    pub(crate) const fn repeats(&self) -> u64 {
        self.repeats
    }

    /// The operations that failed.
    pub(crate) fn failures(&self) -> &[Failed] {
        &self.failures
    }

    pub(super) fn done(&mut self, latency: Duration, repeats: u32) {
        let microseconds = u32::try_from(latency.as_micros()).unwrap_or(u32::MAX);
        self.microseconds.push(microseconds);
        self.repeats += u64::from(repeats);
    }

    pub(super) fn failed(&mut self, at: Duration, took: Duration, reason: String) {
        self.failures.push(Failed { at, took, reason });
    }

    /// Takes in what another client has seen.
    pub(super) fn join(&mut self, other: Self) {
        let Self {
            name: _,
            repeats,
            microseconds,
            failures,
        } = other;
        self.repeats += repeats;
        self.microseconds.extend(microseconds);
        self.failures.extend(failures);
    }

    /// The latencies below which these shares of all are, in order.
    pub(crate) fn quantiles<const N: usize>(&self, shares: [f64; N]) -> [Duration; N] {
        let mut sorted = self.microseconds.clone();
        sorted.sort_unstable();
        shares.map(|share| {
            let last = sorted.len().saturating_sub(1);
            let place = (share * last as f64).ceil() as usize;
            let microseconds = sorted.get(place.min(last)).copied().unwrap_or(0);
            Duration::from_micros(microseconds.into())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_all_clients() {
        let mut ledger = Ledger::new("some");
        let mut other = Ledger::new("some");
        for number in 1..=50 {
            ledger.done(Duration::from_micros(2 * number), 0);
            other.done(Duration::from_micros(2 * number - 1), 1);
        }
        ledger.join(other);
        let micros = Duration::from_micros;
        assert_eq!(
            ledger.quantiles([0.0, 0.5, 0.99, 1.0]),
            [1, 51, 100, 100].map(micros)
        );
        assert_eq!((ledger.count(), ledger.repeats()), (100, 50));
        assert_eq!(Ledger::new("none").quantiles([0.5]), [Duration::ZERO]);
    }
}
