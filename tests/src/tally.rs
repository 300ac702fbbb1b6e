//! Counts of answers by backend.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use crate::{
    client::{Answer, Failure},
    sandbox::addresses,
};

/// Number of times that each backend saw its clients at an address that is not theirs.
pub type ForeignSources = BTreeMap<(SocketAddr, IpAddr), u64>;

/// One backend's share.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Share {
    /// The name of the pod.
    pub name: String,
    /// Number of connections that it answered.
    pub connections: u64,
    /// Number of bytes that they carried, both ways.
    pub bytes: u64,
}

/// The outcome of many connections to one frontend.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// By the backend's address.
    pub shares: BTreeMap<SocketAddr, Share>,
    /// Number of occurrences of each failure.
    pub failures: BTreeMap<String, u64>,
    /// Answers from backends that had not seen the client's own address. Its port may differ: it
    /// does where the client has used it with another frontend of the backend a moment ago.
    pub foreign_sources: ForeignSources,
    /// The sum of the latencies of all answers.
    pub time: Duration,
}

impl Tally {
    /// Counts one outcome.
    pub fn add(&mut self, outcome: &Result<Answer, Failure>) {
        let answer = match outcome {
            Ok(answer) => answer,
            Err(failure) => {
                *self.failures.entry(failure.to_string()).or_default() += 1;
                return;
            }
        };
        let share = self.shares.entry(answer.backend).or_default();
        share.name.clone_from(&answer.name);
        share.connections += 1;
        share.bytes += answer.bytes;
        if answer.peer.ip() != answer.client.ip() {
            let source = (answer.backend, answer.peer.ip());
            *self.foreign_sources.entry(source).or_default() += 1;
        }
        self.time += answer.latency;
    }

    /// Returns the number of connections that were answered.
    pub fn answered(&self) -> u64 {
        self.shares.values().map(|share| share.connections).sum()
    }

    /// Returns the number of connections that were not.
    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }

    /// Returns the number of connections that this backend answered.
    pub fn of(&self, backend: SocketAddr) -> u64 {
        self.shares
            .get(&backend)
            .map_or(0, |share| share.connections)
    }

    /// The foreign sources of a client outside: backends on the other node see this node, those
    /// on this one the client.
    pub fn sources_from_outside(&self) -> ForeignSources {
        let remote = self.shares.iter();
        remote
            .filter_map(|(backend, share)| {
                let node = match backend.ip() {
                    ip if ip == addresses::POD_D => addresses::NODE,
                    ip if ip == addresses::v6(addresses::POD_D) => addresses::v6(addresses::NODE),
                    _ => return None,
                };
                Some(((*backend, node), share.connections))
            })
            .collect()
    }

    /// The backends that answered.
    pub fn backends(&self) -> Vec<SocketAddr> {
        self.shares.keys().copied().collect()
    }
}

impl FromIterator<Result<Answer, Failure>> for Tally {
    fn from_iter<I: IntoIterator<Item = Result<Answer, Failure>>>(outcomes: I) -> Self {
        let mut tally = Self::default();
        outcomes.into_iter().for_each(|outcome| tally.add(&outcome));
        tally
    }
}
