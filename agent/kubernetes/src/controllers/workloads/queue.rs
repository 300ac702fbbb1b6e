//! Queue of the keys to work on: each key once, and one that fails again after a while.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    hash::Hash,
    time::{Duration, Instant},
};

/// Number of retries of one after its first failure.
pub(super) const REQUEUES: u32 = 15;

/// Delay after the first failure; it doubles with each that follows.
const FIRST: Duration = Duration::from_millis(5);

/// The longest time.
const LONGEST: Duration = Duration::from_secs(1000);

/// Delay after the first refusal; it doubles with each that follows.
const FIRST_REFUSED: Duration = Duration::from_secs(1);

/// The longest time between two tries of what the server refuses.
const LONGEST_REFUSED: Duration = Duration::from_mins(1);

/// So many retries at once; then so many in a second, of all keys together.
const BURST: u32 = 100;
const EVERY: Duration = Duration::from_millis(100);

/// Keys that wait, keys that are worked on, and keys that were given up.
#[derive(Debug)]
pub(super) struct Queue<K> {
    /// In the order in which they came.
    ready: BTreeMap<u64, K>,
    waiting: HashMap<K, u64>,
    next: u64,
    /// Time of the retry of each that failed.
    later: BTreeSet<(Instant, K)>,
    delayed: HashMap<K, Instant>,
    busy: HashMap<K, bool>,
    requeues: HashMap<K, u32>,
    /// Number of refusals of each since it was last done.
    refusals: HashMap<K, u32>,
    dropped: BTreeSet<K>,
    /// Until when retries are taken.
    taken: Option<Instant>,
}

/// Result of the work on a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// It is as it is to be.
    Done,
    /// It has to be tried again; this was one of the times that it may be.
    Failed,
    /// It has to be tried again, for no fault of its own.
    Again,
    /// The server does not take it: a policy or a webhook that may change at any time.
    Refused,
}

/// Next step for a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Nothing,
    /// It is tried again.
    Retry,
    /// The same, until the server takes it; it was not refused before.
    Refused,
    /// It is given up until something changes.
    Dropped,
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        Self {
            ready: BTreeMap::new(),
            waiting: HashMap::new(),
            next: 0,
            later: BTreeSet::new(),
            delayed: HashMap::new(),
            busy: HashMap::new(),
            requeues: HashMap::new(),
            refusals: HashMap::new(),
            dropped: BTreeSet::new(),
            taken: None,
        }
    }
}

impl<K: Clone + Eq + Hash + Ord> Queue<K> {
    /// Something has changed: the key is to be worked on, once if it is there already.
    pub(super) fn add(&mut self, key: K) {
        self.dropped.remove(&key);
        if let Some(is_late) = self.busy.get_mut(&key) {
            *is_late = true;
            return;
        }
        if let Some(at) = self.delayed.remove(&key) {
            self.later.remove(&(at, key.clone()));
        }
        self.enqueue(key);
    }

    /// Returns whether it is worked on.
    pub(super) fn is_busy(&self, key: &K) -> bool {
        self.busy.contains_key(key)
    }

    fn enqueue(&mut self, key: K) {
        if !self.waiting.contains_key(&key) {
            self.waiting.insert(key.clone(), self.next);
            self.ready.insert(self.next, key);
            self.next += 1;
        }
    }

    /// Takes a key to work on, until [`Self::end`] gets the result.
    pub(super) fn take(&mut self, now: Instant) -> Option<K> {
        while let Some((at, _)) = self.later.first()
            && *at <= now
            && let Some((_, key)) = self.later.pop_first()
        {
            self.delayed.remove(&key);
            self.enqueue(key);
        }
        let (_, key) = self.ready.pop_first()?;
        self.waiting.remove(&key);
        self.busy.insert(key.clone(), false);
        Some(key)
    }

    /// Work on a key ended so.
    pub(super) fn end(&mut self, key: &K, end: End, now: Instant) -> Next {
        let is_late = self.busy.remove(key).unwrap_or_default();
        let next = match end {
            End::Done => {
                self.requeues.remove(key);
                self.refusals.remove(key);
                Next::Nothing
            }
            End::Again => {
                // With no time of its own: the caller knows when the server may be asked again.
                self.enqueue(key.clone());
                return Next::Retry;
            }
            End::Refused => {
                let count = self.refusals.entry(key.clone()).or_default();
                let pause = FIRST_REFUSED * 2_u32.saturating_pow(*count);
                *count = count.saturating_add(1);
                let is_new = *count == 1;
                self.delay(key, pause.min(LONGEST_REFUSED), now);
                if is_new { Next::Refused } else { Next::Retry }
            }
            End::Failed => {
                let count = self.requeues.entry(key.clone()).or_default();
                if *count < REQUEUES {
                    let pause = (FIRST * 2_u32.pow(*count)).min(LONGEST);
                    *count += 1;
                    self.delay(key, pause, now);
                    Next::Retry
                } else {
                    self.give_up(key)
                }
            }
        };
        // A change does not wait for a retry.
        if is_late {
            self.add(key.clone());
        }
        next
    }

    /// Has the key tried again after `pause`, or when the next retry may be.
    fn delay(&mut self, key: &K, pause: Duration, now: Instant) {
        let at = (now + pause).max(self.token(now));
        self.later.insert((at, key.clone()));
        self.delayed.insert(key.clone(), at);
    }

    fn give_up(&mut self, key: &K) -> Next {
        self.requeues.remove(key);
        self.dropped.insert(key.clone());
        Next::Dropped
    }

    /// Returns the time at which the next retry may be.
    fn token(&mut self, now: Instant) -> Instant {
        let full = EVERY * BURST;
        let taken = self.taken.unwrap_or(now).max(now) + EVERY;
        self.taken = Some(taken);
        now.max(taken.checked_sub(full).unwrap_or(now))
    }

    /// Takes up again the work on those that were given up.
    pub(super) fn revive(&mut self) {
        for key in std::mem::take(&mut self.dropped) {
            self.add(key);
        }
    }

    /// Nothing is to be worked on any more, and nothing has failed. What is worked on stays.
    pub(super) fn clear(&mut self) {
        let busy = std::mem::take(&mut self.busy);
        *self = Self {
            busy: busy.into_keys().map(|key| (key, false)).collect(),
            ..Self::default()
        };
    }

    /// Returns the time at which the next one that failed is due.
    pub(super) fn next_at(&self) -> Option<Instant> {
        self.later.first().map(|(at, _)| *at)
    }

    /// Returns the number of keys that wait.
    pub(super) fn len(&self) -> usize {
        self.ready.len() + self.later.len()
    }

    /// Returns the number of keys that were given up.
    pub(super) fn dropped(&self) -> usize {
        self.dropped.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take_all(queue: &mut Queue<u8>, now: Instant) -> Vec<u8> {
        std::iter::from_fn(|| queue.take(now)).collect()
    }

    #[test]
    fn a_key_is_worked_on_once_however_often_it_changes() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        [1, 2, 1, 3, 2].into_iter().for_each(|key| queue.add(key));
        assert_eq!(take_all(&mut queue, now), [1, 2, 3]);
        // Changed while it is worked on: once more afterwards.
        queue.add(2);
        queue.add(2);
        assert!(take_all(&mut queue, now).is_empty());
        assert_eq!(queue.end(&2, End::Done, now), Next::Nothing);
        assert_eq!(queue.end(&1, End::Done, now), Next::Nothing);
        assert_eq!(take_all(&mut queue, now), [2]);
    }

    #[test]
    fn a_failing_key_is_tried_sixteen_times_and_then_given_up() {
        let (mut queue, start) = (Queue::default(), Instant::now());
        let mut now = start;
        queue.add(1);
        for time in 0..=REQUEUES {
            assert_eq!(queue.take(now), Some(1), "{time}");
            assert_eq!(queue.take(now), None);
            let next = queue.end(&1, End::Failed, now);
            if time == REQUEUES {
                assert_eq!(next, Next::Dropped);
            } else {
                assert_eq!(next, Next::Retry);
                assert_eq!(queue.take(now), None, "not at once");
                now = queue.next_at().unwrap();
            }
        }
        // 5 ms doubled fifteen times.
        assert_eq!(now - start, FIRST * (2_u32.pow(REQUEUES) - 1));
        assert_eq!((queue.len(), queue.dropped()), (0, 1));
        queue.revive();
        assert_eq!((queue.take(now), queue.dropped()), (Some(1), 0));
        // It has its whole budget again.
        assert_eq!(queue.end(&1, End::Failed, now), Next::Retry);
        assert_eq!(queue.next_at(), Some(now + FIRST));
        // A change does not wait.
        queue.add(1);
        assert_eq!((queue.take(now), queue.next_at()), (Some(1), None));
    }

    #[test]
    fn a_server_that_is_away_uses_up_no_budget() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.add(1);
        for _ in 0..100 {
            assert_eq!(queue.take(now), Some(1));
            assert_eq!(queue.end(&1, End::Again, now), Next::Retry);
        }
        assert_eq!(queue.take(now), Some(1));
        assert_eq!(queue.end(&1, End::Failed, now), Next::Retry);
        assert_eq!(queue.next_at(), Some(now + FIRST));
    }

    #[test]
    fn a_refused_key_is_tried_again_without_end_and_reported_once() {
        let (mut queue, mut now) = (Queue::default(), Instant::now());
        queue.add(1);
        for seconds in [1, 2, 4, 8, 16, 32].into_iter().chain([60; 100]) {
            assert_eq!(queue.take(now), Some(1));
            let next = queue.end(&1, End::Refused, now);
            let expected = if seconds == 1 {
                Next::Refused
            } else {
                Next::Retry
            };
            assert_eq!(next, expected);
            assert_eq!(queue.next_at(), Some(now + Duration::from_secs(seconds)));
            now += Duration::from_secs(seconds);
        }
        // One that changes does not wait.
        assert_eq!(queue.take(now), Some(1));
        queue.add(1);
        assert_eq!(queue.end(&1, End::Refused, now), Next::Retry);
        assert_eq!(queue.take(now), Some(1));
        assert_eq!(queue.end(&1, End::Done, now), Next::Nothing);
        // Once it was done, a refusal is news.
        queue.add(1);
        assert_eq!(queue.take(now), Some(1));
        assert_eq!(queue.end(&1, End::Refused, now), Next::Refused);
        assert_eq!(queue.dropped(), 0);
    }

    #[test]
    fn many_that_fail_do_not_come_back_all_at_once() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        for key in 0..=200 {
            queue.add(key);
            assert_eq!(queue.take(now), Some(key));
            queue.end(&key, End::Failed, now);
        }
        let soon = take_all(&mut queue, now + FIRST).len();
        assert_eq!(soon, BURST as usize);
        let second = take_all(&mut queue, now + Duration::from_secs(1)).len();
        assert_eq!(second, 10);
    }

    #[test]
    fn one_that_does_not_lead_any_more_has_nothing_to_do() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        [1, 2, 3].into_iter().for_each(|key| queue.add(key));
        assert_eq!(queue.take(now), Some(1));
        queue.add(1);
        queue.clear();
        assert_eq!(queue.take(now), None);
        queue.add(1);
        assert_eq!(queue.take(now), None, "it is still worked on");
        queue.end(&1, End::Done, now);
        assert_eq!(queue.take(now), Some(1));
    }
}
