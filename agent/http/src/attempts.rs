//! Wrong tokens: the number of them that a peer may send, the log's lines about them, and their count.

use std::{
    collections::HashMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tracing::warn;

use crate::peer::{Holder, Peer};

/// Number of wrong tokens that a peer may send at once.
const MOST: f64 = 10.0;

/// Time after which it may send one more.
const EACH: Duration = Duration::from_secs(2);

/// Maximum number of peers that are remembered.
const HOLDERS: usize = 1024;

/// Minimum interval between two lines of the log.
const INTERVAL: Duration = Duration::from_mins(1);

/// Number of wrong tokens of all listeners.
static REFUSED: AtomicU64 = AtomicU64::new(0);

/// Returns the number of requests with a wrong token that listeners of this process have refused.
pub fn refused_tokens() -> u64 {
    REFUSED.load(Ordering::Relaxed)
}

/// The wrong tokens at one listener.
#[derive(Debug)]
pub struct Attempts {
    listener: &'static str,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    budgets: HashMap<Holder, Budget>,
    /// Time of the last line.
    logged: Option<Instant>,
    /// Number of wrong tokens since then.
    unlogged: u64,
}

/// The number of wrong tokens that a peer may still send, at a time.
#[derive(Debug, Clone, Copy)]
struct Budget {
    left: f64,
    at: Instant,
}

impl Attempts {
    /// No wrong token at the listener of this name.
    pub fn new(listener: &'static str) -> Self {
        Self {
            listener,
            state: Mutex::default(),
        }
    }

    /// Returns the time that has to pass before a token of this peer is compared again; `None` if one may be now.
    pub fn pause(&self, peer: Peer, now: Instant) -> Option<Duration> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let left = state.budgets.get(&peer.holder())?.left(now);
        (left < 1.0).then(|| EACH.mul_f64(1.0 - left))
    }

    /// Counts a wrong token of a peer, and logs it unless there was a line lately.
    pub fn count(&self, peer: Peer, now: Instant) {
        REFUSED.fetch_add(1, Ordering::Relaxed);
        let Some(count) = self.note(peer, now) else {
            return;
        };
        let listener = self.listener;
        match peer {
            Peer::Address(from) => {
                warn!("{listener}: {count} wrong tokens, the last one from {from}");
            }
            Peer::User(Some(user)) => {
                warn!("{listener}: {count} wrong tokens, the last one of user {user}");
            }
            Peer::User(None) => warn!("{listener}: {count} wrong tokens at a Unix socket"),
        }
    }

    /// Notes a wrong token. Returns the number of them since the last line if there is to be another one.
    fn note(&self, peer: Peer, now: Instant) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State {
            budgets,
            logged,
            unlogged,
        } = &mut *state;
        let holder = peer.holder();
        if budgets.len() >= HOLDERS && !budgets.contains_key(&holder) {
            make_room(budgets, now);
        }
        let budget = budgets.entry(holder).or_insert(Budget {
            left: MOST,
            at: now,
        });
        *budget = Budget {
            left: (budget.left(now) - 1.0).max(0.0),
            at: now,
        };
        *unlogged += 1;
        if logged.is_some_and(|at| now.saturating_duration_since(at) < INTERVAL) {
            return None;
        }
        *logged = Some(now);
        Some(std::mem::take(unlogged))
    }
}

impl Budget {
    fn left(&self, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(self.at);
        (self.left + passed.div_duration_f64(EACH)).min(MOST)
    }
}

/// Forgets the peers with a full budget, or else the one with most of it.
fn make_room(budgets: &mut HashMap<Holder, Budget>, now: Instant) {
    budgets.retain(|_, budget| budget.left(now) < MOST);
    if budgets.len() < HOLDERS {
        return;
    }
    let most = budgets
        .iter()
        .max_by(|(_, one), (_, other)| one.left(now).total_cmp(&other.left(now)));
    if let Some(holder) = most.map(|(holder, _)| *holder) {
        budgets.remove(&holder);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use super::*;

    fn peer(number: u32) -> Peer {
        Peer::Address(SocketAddr::new(Ipv4Addr::from_bits(number).into(), 1))
    }

    #[test]
    fn a_peer_may_send_some_wrong_tokens_and_then_one_each_two_seconds() {
        let attempts = Attempts::new("page");
        let now = Instant::now();
        for _ in 0..10 {
            assert_eq!(attempts.pause(peer(1), now), None);
            attempts.note(peer(1), now);
        }
        assert_eq!(attempts.pause(peer(1), now), Some(EACH));
        assert_eq!(attempts.pause(peer(2), now), None, "another peer's");
        let later = now + EACH;
        assert_eq!(attempts.pause(peer(1), later), None);
        attempts.note(peer(1), later);
        assert_eq!(attempts.pause(peer(1), later), Some(EACH));
    }

    #[test]
    fn the_log_has_one_line_a_minute_with_the_number_of_all() {
        let attempts = Attempts::new("page");
        let now = Instant::now();
        assert_eq!(attempts.note(peer(1), now), Some(1));
        for number in 0..999 {
            assert_eq!(attempts.note(peer(number), now), None);
        }
        assert_eq!(attempts.note(peer(1), now + INTERVAL), Some(1000));
    }

    #[test]
    fn the_peers_that_are_remembered_stay_few_and_are_those_that_guess() {
        let attempts = Attempts::new("page");
        let now = Instant::now();
        for _ in 0..10 {
            attempts.note(peer(0), now);
        }
        for number in 1..3_000 {
            attempts.note(peer(number), now);
        }
        let known = attempts.state.lock().unwrap().budgets.len();
        assert!(known <= HOLDERS, "{known}");
        assert_eq!(attempts.pause(peer(0), now), Some(EACH));
    }
}
