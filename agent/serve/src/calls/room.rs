//! The room of a server's calls.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use shunt_http::{Holder, Peer};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use crate::calls::{
    held::Held,
    limits::{ANSWERED, CallLimits},
};

/// Time in which a client has to take something if there is no room for others.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Time after which a call that waits for room looks again.
pub(super) const PAUSE: Duration = Duration::from_millis(100);

/// Part of the streams that no address may exceed.
const LARGEST_PART: (usize, usize) = (7, 8);

/// Number of calls of all servers that found no room, or lost it.
static REFUSALS: AtomicU64 = AtomicU64::new(0);

/// Returns the number of calls of all servers that found no room, or lost it.
pub(crate) fn refusals() -> u64 {
    REFUSALS.load(Ordering::Relaxed)
}

/// Counts a call that finds no room.
pub(super) fn count_refusal() {
    REFUSALS.fetch_add(1, Ordering::Relaxed);
}

/// The room of a server's calls.
#[derive(Debug)]
pub(super) struct Room {
    limits: CallLimits,
    streams: Mutex<HashMap<Holder, usize>>,
    answered: Arc<Semaphore>,
    /// Number of bytes that clients have not taken.
    bytes: AtomicUsize,
    /// The answers that are not complete, by number.
    answers: Mutex<HashMap<u64, Arc<Held>>>,
    next: AtomicU64,
}

/// The place of a call. Dropped, it is free.
#[derive(Debug)]
pub(super) enum CallPlace {
    /// That of a stream.
    Stream(StreamPlace),
    /// That of a call that ends.
    Ends(OwnedSemaphorePermit),
}

/// The place of a stream.
#[derive(Debug)]
pub(super) struct StreamPlace {
    room: Arc<Room>,
    holder: Holder,
}

impl Room {
    pub(super) fn new(limits: CallLimits) -> Self {
        Self {
            limits,
            streams: Mutex::default(),
            answered: Arc::new(Semaphore::new(ANSWERED)),
            bytes: AtomicUsize::new(0),
            answers: Mutex::default(),
            next: AtomicU64::new(0),
        }
    }

    /// Takes the place of a stream; `None` if there is none.
    pub(super) fn stream(self: &Arc<Self>, peer: Peer) -> Option<CallPlace> {
        let limit = self.limits.streams;
        let largest = match peer {
            Peer::Address(_) => {
                let (part, whole) = LARGEST_PART;
                (limit * part / whole).max(1)
            }
            // A Unix socket may have one user alone.
            Peer::User(_) => limit,
        };
        let holder = peer.holder();
        let mut streams = lock(&self.streams);
        let own = streams.get(&holder).copied().unwrap_or_default();
        if own >= largest || streams.values().sum::<usize>() >= limit {
            return None;
        }
        streams.insert(holder, own + 1);
        drop(streams);
        let room = Arc::clone(self);
        Some(CallPlace::Stream(StreamPlace { room, holder }))
    }

    /// Takes the place of a call that ends. If there is none, an answer gives way that its client does not take; `None` if
    /// there is none of these either.
    pub(super) async fn answered(&self) -> Option<CallPlace> {
        let until = Instant::now() + PATIENCE + PAUSE;
        loop {
            let permit = Arc::clone(&self.answered).acquire_owned();
            if let Ok(Ok(permit)) = timeout(PAUSE, permit).await {
                return Some(CallPlace::Ends(permit));
            }
            if !self.end_stalest(Held::ends) && Instant::now() >= until {
                return None;
            }
        }
    }

    /// Has this answer until it is [forgotten](Self::forget) by its number.
    pub(super) fn remember(&self, held: Arc<Held>) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        lock(&self.answers).insert(number, held);
        number
    }

    pub(super) fn forget(&self, number: u64) {
        lock(&self.answers).remove(&number);
    }

    /// Counts bytes that a client has not taken yet.
    pub(super) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes no longer.
    pub(super) fn remove(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Returns whether there is room for another message. Answers give way that their clients do not take.
    pub(super) fn has_bytes(&self) -> bool {
        loop {
            if self.bytes.load(Ordering::Relaxed) < self.limits.bytes {
                return true;
            }
            if !self.end_stalest(|_| true) {
                return false;
            }
        }
    }

    /// Ends the answer of which its client has taken nothing for longest, among these and for long enough. Returns whether
    /// there was one.
    fn end_stalest(&self, among: impl Fn(&Held) -> bool) -> bool {
        let answers = lock(&self.answers);
        let among = answers.values().filter(|held| among(held));
        let stale = among.filter_map(|held| Some((held.waits_since()?, held)));
        let Some((since, held)) = stale.min_by_key(|(since, _)| *since) else {
            return false;
        };
        if since.elapsed() < PATIENCE {
            return false;
        }
        count_refusal();
        self.remove(held.end());
        true
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let Self { room, holder } = self;
        let mut streams = lock(&room.streams);
        let Some(own) = streams.get_mut(holder) else {
            return;
        };
        *own -= 1;
        if *own == 0 {
            streams.remove(holder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: CallLimits = CallLimits {
        connections: 8,
        streams: 8,
        bytes: 1 << 20,
    };

    fn peer(address: &str) -> Peer {
        Peer::Address(address.parse().unwrap())
    }

    #[test]
    fn no_address_takes_all_streams_and_a_user_may() {
        let room = Arc::new(Room::new(LIMITS));
        let of_one: Vec<_> = (0..7)
            .map(|port| room.stream(peer(&format!("192.0.2.1:{port}"))).unwrap())
            .collect();
        assert!(room.stream(peer("192.0.2.1:9")).is_none());
        let other = room.stream(peer("192.0.2.2:1")).unwrap();
        assert!(room.stream(peer("192.0.2.3:1")).is_none(), "all are taken");
        drop((of_one, other));
        let root = Peer::User(Some(0));
        let of_root: Vec<_> = (0..8).map(|_| room.stream(root).unwrap()).collect();
        assert!(room.stream(root).is_none());
        drop(of_root);
        assert!(lock(&room.streams).is_empty());
    }

    #[tokio::test]
    async fn streams_take_no_room_of_calls_that_end() {
        let room = Arc::new(Room::new(LIMITS));
        let root = Peer::User(Some(0));
        let _streams: Vec<_> = (0..8).map(|_| room.stream(root).unwrap()).collect();
        assert!(room.stream(root).is_none());
        let mut places = Vec::new();
        for _ in 0..ANSWERED {
            places.push(room.answered().await.unwrap());
        }
        drop(places);
    }
}
