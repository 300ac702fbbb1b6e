//! Memory of connections from event to event: since when they are there, and which were reported to have timed out.

use std::{
    collections::{HashMap, HashSet, hash_map::RandomState},
    hash::BuildHasher as _,
    mem,
    time::{Duration, SystemTime},
};

use shunt_datapath::FlowConnection;

/// Minimum number of connections that are remembered, and half of the maximum.
const LIMIT: usize = 1 << 19;

/// Identity of a connection: a hash of its client, frontend and protocol.
type Id = u64;

/// Data on connections that are remembered.
#[derive(Debug)]
pub(super) struct Ages {
    hasher: RandomState,
    /// Times of begins that were seen: the newest ones, and those before them. Ends of some are never seen, so
    /// the oldest ones are forgotten.
    began: [HashMap<Id, SystemTime>; 2],
    /// Connections that were reported to have timed out by the last look at the table, and by the one before.
    told: [HashSet<Id>; 2],
    /// The ticks of these looks: a timeout before the earlier one was seen by it, or concerns no watcher.
    looks: [u32; 2],
}

impl Ages {
    /// Nothing yet, at this tick.
    pub(super) fn since(tick: u32) -> Self {
        Self {
            hasher: RandomState::new(),
            began: <[HashMap<_, _>; 2]>::default(),
            told: <[HashSet<_>; 2]>::default(),
            looks: [tick; 2],
        }
    }

    fn id(&self, connection: &FlowConnection) -> Id {
        let FlowConnection {
            protocol,
            client,
            frontend,
            ..
        } = connection;
        self.hasher.hash_one((protocol, client, frontend))
    }

    /// A connection began.
    pub(super) fn begin(&mut self, connection: &FlowConnection) {
        let id = self.id(connection);
        // A report that one has timed out was about an earlier one of this name.
        for told in &mut self.told {
            told.remove(&id);
        }
        let [newest, before] = &mut self.began;
        if newest.len() >= LIMIT {
            *before = mem::take(newest);
        }
        newest.insert(id, connection.time);
    }

    /// A connection ended. Returns how long it was there, if its begin was seen.
    pub(super) fn end(&mut self, connection: &FlowConnection) -> Option<Duration> {
        let id = self.id(connection);
        // The newest one of this name; of one before it, the end was not seen.
        let [newest, before] = self.began.each_mut().map(|began| began.remove(&id));
        let began = newest.or(before)?;
        connection.time.duration_since(began).ok()
    }

    /// The tick of the last look at the table.
    pub(super) const fn last_look(&self) -> u32 {
        self.looks[1]
    }

    /// The table is looked at, at this tick.
    pub(super) fn look(&mut self, tick: u32) {
        self.looks = [self.looks[1], tick];
        self.told.swap(0, 1);
        self.told[1].clear();
    }

    /// A look has found a connection that has timed out.
    pub(super) fn note(&mut self, connection: &FlowConnection) {
        if self.told[1].len() < LIMIT {
            let id = self.id(connection);
            self.told[1].insert(id);
        }
    }

    /// Returns whether it was reported already that this connection has timed out, which a program has just noticed,
    /// at tick `now`.
    pub(super) fn is_told(&self, connection: &FlowConnection, now: u32) -> bool {
        let id = self.id(connection);
        // Of who timed out right at the look before that may not be known.
        let since_look = now.wrapping_sub(self.looks[0]).saturating_add(2);
        connection.overdue > since_look || self.told.iter().any(|told| told.contains(&id))
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use shunt_common::EndCause;

    use super::*;

    fn connection(client: u16, seconds: u64, overdue: u32) -> FlowConnection {
        let at = |last, port| ([10, 1, 1, last], port).into();
        FlowConnection {
            time: SystemTime::UNIX_EPOCH + Duration::from_secs(seconds),
            ended: Some(EndCause::TimedOut),
            service: 0,
            protocol: 17,
            client: at(5, client),
            frontend: at(10, 80),
            backend: at(3, 8080),
            snat_source: None,
            overdue,
            sample: 0,
        }
    }

    #[test]
    fn a_connection_is_as_old_as_its_begin_says() {
        let mut ages = Ages::since(0);
        ages.begin(&connection(1, 100, 0));
        assert_eq!(ages.end(&connection(2, 130, 0)), None, "another one");
        let age = ages.end(&connection(1, 130, 0));
        assert_eq!(age, Some(Duration::from_secs(30)));
        assert_eq!(ages.end(&connection(1, 140, 0)), None, "it has ended");
    }

    #[test]
    fn the_oldest_begins_are_forgotten() {
        let mut ages = Ages::since(0);
        let of = |number: usize| {
            let [_, _, high, low] = (number as u32 >> 16).to_be_bytes();
            let client = SocketAddr::from(([10, 1, high, low], number as u16));
            FlowConnection {
                client,
                ..connection(0, 100, 0)
            }
        };
        for number in 0..=2 * LIMIT {
            ages.begin(&of(number));
        }
        assert_eq!(ages.end(&of(0)), None);
        for number in [LIMIT, 2 * LIMIT] {
            assert_eq!(ages.end(&of(number)), Some(Duration::ZERO));
        }
    }

    #[test]
    fn a_time_out_is_told_once_whoever_notices_it() {
        let mut ages = Ages::since(1000);
        assert!(
            ages.is_told(&connection(1, 0, 20), 1010),
            "before anybody watched"
        );
        assert!(!ages.is_told(&connection(1, 0, 5), 1010));
        ages.look(1100);
        ages.note(&connection(1, 0, 5));
        assert!(
            ages.is_told(&connection(1, 0, 25), 1120),
            "the look has told it"
        );
        assert!(
            !ages.is_told(&connection(2, 0, 25), 1120),
            "a program was before the look"
        );
        ages.look(1200);
        assert!(
            ages.is_told(&connection(1, 0, 125), 1220),
            "by the look before"
        );
        ages.begin(&connection(1, 0, 0));
        assert!(
            !ages.is_told(&connection(1, 0, 5), 1230),
            "it began after the look"
        );
        ages.look(1300);
        assert!(ages.is_told(&connection(1, 0, 225), 1320), "too long ago");
        assert!(
            !ages.is_told(&connection(1, 0, 5), 1320),
            "another one of the same client"
        );
    }
}
