//! A candidate's view of the Lease, and the next write that follows from it: the rules of client-go
//! (tools/leaderelection/leaderelection.go), without a clock or a server.
//!
//! No clock of another host counts. A follower measures by its own monotonic clock for how long the Lease has not
//! changed. A leader's term begins before the request that renews the Lease, and is shorter than the Lease lasts, so
//! that it is over before a follower, which sees the renewal later, may take the Lease.

#[cfg(test)]
mod tests;

use std::time::Duration;

use k8s_openapi::{
    api::coordination::v1::LeaseSpec, apimachinery::pkg::apis::meta::v1::MicroTime, jiff::Timestamp,
};
use tokio::time::Instant;

use crate::controllers::options::LeaseOptions;

/// The longest time between two looks at the Lease. A follower sees within it that the Lease is given back.
const RETRY: Duration = Duration::from_secs(2);

/// Number of looks at the Lease in a leader's term, as client-go has it (10 s and 2 s).
const TRIES: u32 = 5;

/// The duration in seconds of a Lease that is given back, the shortest that the API takes.
const GIVEN_BACK: i32 = 1;

/// The Lease in one of its versions.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Record {
    pub(super) version: String,
    pub(super) spec: LeaseSpec,
}

/// A write of the Lease, which the server refuses if another one comes before it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bid {
    /// Version that it follows; `None`: there is no Lease yet.
    pub(super) version: Option<String>,
    /// The fields that it sets.
    pub(super) spec: LeaseSpec,
}

/// The Lease as it was last seen.
#[derive(Debug)]
struct Seen {
    record: Record,
    /// Time at which this version was first seen.
    since: Instant,
}

/// One of those that stand for election.
#[derive(Debug)]
pub(super) struct Candidate {
    identity: String,
    /// Duration of the Lease.
    duration: Duration,
    /// Duration of a term without a renewal.
    term: Duration,
    seen: Option<Seen>,
    /// End of the term, if it leads.
    end: Option<Instant>,
}

impl Candidate {
    /// Has seen no Lease yet.
    pub(super) fn new(options: &LeaseOptions) -> Self {
        Self {
            identity: options.identity.clone(),
            duration: options.duration,
            term: options.duration.saturating_sub(options.grace),
            seen: None,
            end: None,
        }
    }

    /// Returns the end of the term, if it leads at `now`.
    pub(super) fn end(&self, now: Instant) -> Option<Instant> {
        self.end.filter(|end| now < *end)
    }

    /// Takes note of the Lease that the server has returned. Any other version counts as a renewal: a version comes
    /// once, and a `renewTime` may come again after a step of the holder's clock.
    pub(super) fn observe(&mut self, record: Option<Record>, now: Instant) {
        let known = self.seen.take();
        self.seen = record.map(|record| {
            let same = known.filter(|known| known.record.version == record.version);
            let since = same.map_or(now, |known| known.since);
            Seen { record, since }
        });
        if !self.holds() {
            self.end = None;
        }
    }

    /// Takes note that the server has taken a bid, which was sent at `asked` or later, and has this Lease since.
    pub(super) fn won(&mut self, record: Record, asked: Instant, now: Instant) {
        self.observe(Some(record), now);
        if self.holds() {
            self.end = Some(asked + self.term);
        }
    }

    /// Returns the next write of the Lease, if it is this candidate's, or may be taken. `wall` is shown to users, and
    /// decides nothing.
    pub(super) fn bid(&self, wall: Timestamp, now: Instant) -> Option<Bid> {
        let time = self.stamp(wall);
        let seconds = self.duration.as_secs();
        let spec = LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(seconds.try_into().unwrap_or(i32::MAX)),
            renew_time: Some(time.clone()),
            ..LeaseSpec::default()
        };
        let Some(seen) = &self.seen else {
            let spec = LeaseSpec {
                acquire_time: Some(time),
                lease_transitions: Some(0),
                ..spec
            };
            return Some(Bid {
                version: None,
                spec,
            });
        };
        let version = Some(seen.record.version.clone());
        if self.holds() {
            return Some(Bid { version, spec });
        }
        if !self.is_free(seen, now) {
            return None;
        }
        let transitions = seen.record.spec.lease_transitions.unwrap_or(0);
        let spec = LeaseSpec {
            acquire_time: Some(time),
            lease_transitions: Some(transitions.max(0).saturating_add(1)),
            ..spec
        };
        Some(Bid { version, spec })
    }

    /// Returns the write that gives the Lease back, if it is this candidate's, which leads no longer.
    pub(super) fn give_back(&mut self, wall: Timestamp) -> Option<Bid> {
        self.end = None;
        let seen = self.seen.as_ref().filter(|_| self.holds())?;
        let time = self.stamp(wall);
        Some(Bid {
            version: Some(seen.record.version.clone()),
            spec: LeaseSpec {
                holder_identity: Some(String::new()),
                lease_duration_seconds: Some(GIVEN_BACK),
                acquire_time: Some(time.clone()),
                renew_time: Some(time),
                ..LeaseSpec::default()
            },
        })
    }

    /// Returns the time until which a look at the Lease that begins at `now` may last: half a term, as client-go has
    /// it, and not beyond the end of a term.
    pub(super) fn look_until(&self, now: Instant) -> Instant {
        self.not_after_end(now + self.term / 2, now)
    }

    /// Returns the time of the next look at the Lease after one that ended at `now`: a random one, so that candidates
    /// do not come all at once, with time left for the answer.
    pub(super) fn next_look(&self, random: u64, now: Instant) -> Instant {
        let eighth = self.retry() / 8;
        let thousandths = u32::try_from(random % 1000).unwrap_or_default();
        self.not_after_end(now + eighth * 4 + eighth * 3 * thousandths / 1000, now)
    }

    /// Returns the longest time between two looks.
    fn retry(&self) -> Duration {
        RETRY.min(self.term / TRIES)
    }

    fn not_after_end(&self, time: Instant, now: Instant) -> Instant {
        self.end(now).map_or(time, |end| time.min(end))
    }

    /// Returns whether the Lease that was last seen is this candidate's.
    fn holds(&self) -> bool {
        let seen = self.seen.as_ref();
        let holder = seen.and_then(|seen| seen.record.spec.holder_identity.as_ref());
        holder == Some(&self.identity)
    }

    /// Returns whether the Lease that was last seen has no holder, or has not changed for as long as it lasts.
    fn is_free(&self, seen: &Seen, now: Instant) -> bool {
        let LeaseSpec {
            holder_identity,
            lease_duration_seconds,
            ..
        } = &seen.record.spec;
        let seconds = lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let seconds = seconds.filter(|seconds| *seconds > 0);
        let duration = seconds.map_or(self.duration, Duration::from_secs);
        let is_held = holder_identity
            .as_ref()
            .is_some_and(|name| !name.is_empty());
        !is_held || now.duration_since(seen.since) >= duration
    }

    /// Returns the time to write, in the API's microseconds: another one than the Lease has, since a write that changes
    /// nothing makes no version.
    fn stamp(&self, wall: Timestamp) -> MicroTime {
        let micros = |micros| Timestamp::from_microsecond(micros).unwrap_or(wall);
        let time = MicroTime(micros(wall.as_microsecond()));
        let seen = self.seen.as_ref();
        if seen.is_some_and(|seen| seen.record.spec.renew_time.as_ref() == Some(&time)) {
            return MicroTime(micros(wall.as_microsecond() + 1));
        }
        time
    }
}
