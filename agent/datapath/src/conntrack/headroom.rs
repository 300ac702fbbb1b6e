//! Room for new connections: when the table is looked after more often than usual, when
//! connections are removed before their time, and which.
//!
//! | of the table in use | what happens |
//! |---|---|
//! | more than [`BUSY`] | it is swept each second |
//! | more than [`CROWDED`] after a sweep | connections are removed until [`BUSY`], in the order of [`Rank`] |
//! | all of it | a new connection is dropped and counted; those that are there go on |

use shunt_common::{ConntrackEntry, V4};

use crate::conntrack::lifetime::ConntrackState;

/// Beyond this much of the table, it is swept each second.
pub(crate) const BUSY: Share = Share { eighths: 6 };

/// Beyond this much of the table, connections are removed before their time.
pub(crate) const CROWDED: Share = Share { eighths: 7 };

/// For how many seconds a connection waits at least for its first reply: longer than the first
/// retransmissions of a SYN, after 1 and 3 seconds.
const ANSWER: u32 = 5;

/// For how many seconds a UDP flow with replies is at least kept after its last packet: as long
/// as one without is if there is room.
const UDP_PAUSE: u32 = 30;

/// A part of the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    eighths: usize,
}

impl Share {
    /// So many of `capacity` entries.
    pub(crate) const fn of(self, capacity: u32) -> usize {
        capacity as usize * self.eighths / 8
    }
}

/// In which order connections make room. What is in none of these is never removed for it: TCP
/// connections that are open or half closed, and what is young.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// It is over, and kept for late packets and for its port.
    Over,
    /// Nobody has answered for some seconds.
    Unanswered,
    /// A UDP flow that pauses.
    Pausing,
}

impl Rank {
    /// Whether a connection may have a rank of which the client's half has seen this much, and
    /// nothing for `silent` seconds. A backend's RST is noticed when the client has been silent.
    pub(crate) const fn is_possible(forward: u16, silent: u32) -> bool {
        const ENDS: u16 = ConntrackEntry::<V4>::FIN | ConntrackEntry::<V4>::RST;
        forward & ENDS != 0 || silent > ANSWER
    }

    /// The rank of a connection in this state, silent in both directions for so many seconds;
    /// `None` if it has to stay.
    pub(crate) const fn of(state: ConntrackState, silent: u32) -> Option<Self> {
        match state {
            ConntrackState::Closed | ConntrackState::TimeWait => Some(Self::Over),
            ConntrackState::Unreplied | ConntrackState::New if silent > ANSWER => {
                Some(Self::Unanswered)
            }
            ConntrackState::Assured if silent > UDP_PAUSE => Some(Self::Pausing),
            ConntrackState::Unreplied
            | ConntrackState::New
            | ConntrackState::Assured
            | ConntrackState::Established
            | ConntrackState::Closing => None,
        }
    }
}

/// A connection that may be removed for room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate<K> {
    pub(crate) key: K,
    pub(crate) rank: Rank,
    /// For how many seconds neither direction has had a packet.
    pub(crate) silent: u32,
    /// How many entries it has.
    pub(crate) entries: usize,
}

/// Which of the candidates go, for `missing` entries: the lowest ranks first, and within a rank
/// those that have been silent for the longest. All, if there are not enough.
pub(crate) fn choose<K>(mut candidates: Vec<Candidate<K>>, missing: usize) -> Vec<Candidate<K>> {
    candidates.sort_by_key(|candidate| (candidate.rank, std::cmp::Reverse(candidate.silent)));
    let mut freed = 0;
    let count = candidates
        .iter()
        .take_while(|candidate| {
            let enough = freed >= missing;
            freed += candidate.entries;
            !enough
        })
        .count();
    candidates.truncate(count);
    candidates
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(key: u32, state: ConntrackState, silent: u32) -> Option<Candidate<u32>> {
        Rank::of(state, silent).map(|rank| Candidate {
            key,
            rank,
            silent,
            entries: 2,
        })
    }

    #[test]
    fn open_tcp_connections_and_young_flows_are_never_dropped_early() {
        for (state, silent) in [
            (ConntrackState::Established, 80_000),
            (ConntrackState::Closing, 119),
            (ConntrackState::New, 5),
            (ConntrackState::Unreplied, 0),
            (ConntrackState::Unreplied, 5),
            (ConntrackState::Assured, 0),
            (ConntrackState::Assured, 30),
        ] {
            assert_eq!(Rank::of(state, silent), None, "{state:?} for {silent} s");
        }
    }

    #[test]
    fn what_is_over_goes_first_then_the_unanswered_then_pausing_udp_the_oldest_first() {
        let candidates = || {
            [
                candidate(1, ConntrackState::Assured, 100),
                candidate(2, ConntrackState::Assured, 31),
                candidate(3, ConntrackState::Unreplied, 6),
                candidate(4, ConntrackState::New, 29),
                candidate(5, ConntrackState::Closed, 0),
                candidate(6, ConntrackState::TimeWait, 59),
            ]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
        };
        let order = [6, 5, 4, 3, 1, 2];
        for (missing, removed) in [(0, 0), (1, 1), (2, 1), (3, 2), (8, 4), (12, 6), (100, 6)] {
            let chosen = choose(candidates(), missing);
            let keys: Vec<u32> = chosen.iter().map(|candidate| candidate.key).collect();
            assert_eq!(keys, order[..removed], "{missing} entries are missing");
        }
    }

    #[test]
    fn the_marks_are_three_quarters_and_seven_eighths() {
        assert_eq!(BUSY.of(524_288), 393_216);
        assert_eq!(CROWDED.of(524_288), 458_752);
        assert_eq!(CROWDED.of(u32::MAX), 3_758_096_383, "no overflow");
    }
}
