//! The limit on the ICMP errors that reject packets.

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;

/// A limit on the ICMP errors that reject packets, as a bucket of tokens: so many a second on
/// average, and some at once. What is beyond it is dropped in silence, and counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RejectLimit {
    /// Number of them a second, on all CPUs and of both families; 0: any number.
    pub rate: u32,
}

impl Default for RejectLimit {
    /// As many as Linux itself sends by default (`icmp_msgs_per_sec` of `ip-sysctl.rst`).
    fn default() -> Self {
        Self { rate: 1000 }
    }
}

impl RejectLimit {
    /// Nanoseconds between two; 0: no limit.
    pub(crate) const fn interval(self) -> u64 {
        match self.rate {
            0 => 0,
            rate => SECOND / rate as u64,
        }
    }

    /// Returns the number that may come at once: those of a twentieth of a second, but one at least. Linux has 50
    /// for its 1000 (`icmp_msgs_burst`).
    pub(crate) const fn burst(self) -> u64 {
        match self.rate as u64 / 20 {
            0 => 1,
            burst => burst,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_an_interval_and_a_burst() {
        for (rate, interval, burst) in [
            (0, 0, 1),
            (1, SECOND, 1),
            (1000, 1_000_000, 50),
            (u32::MAX, 0, 214_748_364),
        ] {
            let limit = RejectLimit { rate };
            assert_eq!(
                (limit.interval(), limit.burst()),
                (interval, burst),
                "{rate}"
            );
        }
    }
}
