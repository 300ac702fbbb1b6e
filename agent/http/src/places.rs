//! Places of a listener's connections, and the connections that give way to others.

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use tokio::sync::oneshot;

use crate::peer::{Holder, Peer};

/// Number of places that are kept for loopback: kubelet's probes, and this host's own tools.
const FOR_LOOPBACK: usize = 64;

/// Part of the places that no holder may exceed: what it reads may take for ever.
const LARGEST_PART: (usize, usize) = (7, 8);

/// Number of connections of all listeners that gave way to others, or found no place.
static EVICTIONS: AtomicU64 = AtomicU64::new(0);

/// Returns the number of connections of all listeners that gave way to others, or found no place.
pub fn evictions() -> u64 {
    EVICTIONS.load(Ordering::Relaxed)
}

/// Places of a listener.
#[derive(Debug, Clone)]
pub(crate) struct Places(Arc<Mutex<Taken>>);

#[derive(Debug)]
struct Taken {
    /// Number of places, without those for loopback.
    number: usize,
    next: u64,
    connections: HashMap<u64, Connection>,
}

#[derive(Debug)]
struct Connection {
    holder: Holder,
    /// Number of its requests that are under way: with HTTP/2 there may be several.
    requests: usize,
    /// The end of its last request, or else its beginning.
    since: Instant,
    /// Dropped, it ends the connection.
    _end: oneshot::Sender<Infallible>,
}

/// A connection's place. Dropped, it is free.
#[derive(Debug)]
pub(crate) struct Place {
    places: Places,
    number: u64,
}

/// A request that is under way. Its connection does not give way.
#[derive(Debug)]
pub(crate) struct Busy(Arc<Place>);

/// The end of a connection that gives way.
pub(crate) type GivesWay = oneshot::Receiver<Infallible>;

impl Places {
    /// So many places, and some for loopback.
    pub(crate) fn new(number: usize) -> Self {
        Self(Arc::new(Mutex::new(Taken {
            number,
            next: 0,
            connections: HashMap::new(),
        })))
    }

    /// Takes a place for a connection of `peer`. If there is none, the connection gives way that is idle longest, of the
    /// holder that has most; `None` if all have requests.
    pub(crate) fn take(&self, peer: Peer) -> Option<(Arc<Place>, GivesWay)> {
        let holder = peer.holder();
        let mut taken = self.taken();
        let (part, whole) = LARGEST_PART;
        let has_most = taken.held_by(holder) >= (taken.number * part / whole).max(1);
        if has_most || taken.is_full_for(holder) {
            EVICTIONS.fetch_add(1, Ordering::Relaxed);
            let victim = taken.idlest(has_most.then_some(holder))?;
            taken.connections.remove(&victim);
        }
        let (end, gives_way) = oneshot::channel();
        let number = taken.next;
        taken.next += 1;
        let connection = Connection {
            holder,
            requests: 0,
            since: Instant::now(),
            _end: end,
        };
        taken.connections.insert(number, connection);
        let place = Place {
            places: self.clone(),
            number,
        };
        Some((Arc::new(place), gives_way))
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        let Self(taken) = self;
        taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    fn held_by(&self, holder: Holder) -> usize {
        let connections = self.connections.values();
        connections.filter(|one| one.holder == holder).count()
    }

    /// Returns whether no place is left for `holder`: neither one of all, nor one that is kept for loopback.
    fn is_full_for(&self, holder: Holder) -> bool {
        let of_loopback = self.held_by(Holder::Loopback);
        if holder == Holder::Loopback && of_loopback < FOR_LOOPBACK {
            return false;
        }
        self.connections.len() - of_loopback.min(FOR_LOOPBACK) >= self.number
    }

    /// Returns the connection that is idle longest: that of `holder`, or else of the one that holds most. Loopback does
    /// not give way in the places that are kept for it.
    fn idlest(&self, holder: Option<Holder>) -> Option<u64> {
        let mut held: HashMap<Holder, usize> = HashMap::new();
        for connection in self.connections.values() {
            *held.entry(connection.holder).or_default() += 1;
        }
        let of_loopback = held.get(&Holder::Loopback).copied().unwrap_or_default();
        let is_kept = |of: Holder| of == Holder::Loopback && of_loopback <= FOR_LOOPBACK;
        let idle = self.connections.iter().filter_map(|(number, connection)| {
            let Connection {
                holder,
                requests,
                since,
                _end,
            } = connection;
            (*requests == 0).then_some((*number, *holder, *since))
        });
        let idle = idle.filter(|(_, of, _)| match holder {
            Some(holder) => *of == holder,
            None => !is_kept(*of),
        });
        let idlest =
            idle.min_by_key(|(number, of, since)| (usize::MAX - held[of], *since, *number));
        idlest.map(|(number, ..)| number)
    }
}

impl Place {
    /// Has one request more from now on, until the result is dropped.
    pub(crate) fn busy(self: &Arc<Self>) -> Busy {
        self.change(|connection| connection.requests += 1);
        Busy(Arc::clone(self))
    }

    fn change(&self, change: impl FnOnce(&mut Connection)) {
        let mut taken = self.places.taken();
        if let Some(connection) = taken.connections.get_mut(&self.number) {
            change(connection);
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let Self(place) = self;
        place.change(|connection| {
            connection.requests -= 1;
            connection.since = Instant::now();
        });
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken().connections.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn peer(address: &str) -> Peer {
        Peer::Address(SocketAddr::new(address.parse().unwrap(), 1))
    }

    fn is_open(gives_way: &mut GivesWay) -> bool {
        matches!(
            gives_way.try_recv(),
            Err(oneshot::error::TryRecvError::Empty)
        )
    }

    #[test]
    fn the_idlest_of_the_one_that_holds_most_gives_way() {
        let places = Places::new(8);
        let take = |number, address| -> (Vec<Arc<Place>>, Vec<GivesWay>) {
            (0..number)
                .map(|_| places.take(peer(address)).unwrap())
                .unzip()
        };
        let (_few, mut few) = take(2, "192.0.2.1");
        let (of_many, mut many) = take(6, "2001:db8::1");
        let busy = of_many[0].busy();
        let third = places.take(peer("192.0.2.3")).unwrap();
        assert!(is_open(&mut many[0]), "it has a request");
        assert!(!is_open(&mut many[1]), "it was idle longest");
        assert!(few.iter_mut().all(is_open));
        drop((third, busy));
        // A place that is free is taken first.
        places.take(peer("2001:db8::2")).unwrap();
        assert!(many[2..].iter_mut().all(is_open));
    }

    #[test]
    fn loopback_has_places_of_its_own_and_requests_do_not_give_way() {
        let places = Places::new(8);
        let held: Vec<_> = ["192.0.2.1", "192.0.2.2"]
            .iter()
            .flat_map(|address| (0..4).map(|_| places.take(peer(address)).unwrap()))
            .collect();
        let busy: Vec<_> = held.iter().map(|(place, _)| place.busy()).collect();
        assert!(places.take(peer("192.0.2.3")).is_none());
        let (_probe, mut gives_way) = places.take(peer("127.0.0.1")).unwrap();
        assert!(places.take(peer("192.0.2.1")).is_none());
        assert!(is_open(&mut gives_way), "its place is kept for loopback");
        drop(busy);
    }

    #[test]
    fn a_connection_is_idle_after_the_last_of_its_requests() {
        let places = Places::new(2);
        let (first, mut gives_way) = places.take(peer("192.0.2.1")).unwrap();
        let _second = places.take(peer("192.0.2.2")).unwrap();
        let (one, other) = (first.busy(), first.busy());
        drop(one);
        let _third = places.take(peer("192.0.2.3")).unwrap();
        assert!(is_open(&mut gives_way), "it has another request");
        drop(other);
        // The third one was idle before it.
        let _fourth = places.take(peer("192.0.2.4")).unwrap();
        let _fifth = places.take(peer("192.0.2.5")).unwrap();
        assert!(!is_open(&mut gives_way));
    }

    #[test]
    fn no_holder_takes_all_places() {
        let places = Places::new(8);
        let held: Vec<_> = (0..7)
            .map(|_| places.take(peer("192.0.2.1")).unwrap())
            .collect();
        let busy: Vec<_> = held.iter().map(|(place, _)| place.busy()).collect();
        assert!(places.take(peer("192.0.2.1")).is_none());
        assert!(places.take(peer("192.0.2.2")).is_some());
        drop(busy);
        drop(held);
        for user in [None, Some(0)] {
            assert!(places.take(Peer::User(user)).is_some());
        }
    }
}
