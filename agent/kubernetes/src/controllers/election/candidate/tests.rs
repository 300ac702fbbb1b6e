//! Candidates against a Lease in memory, in any order of their requests and with any clocks.

use proptest::{collection::vec, prelude::*};

use super::*;

const DURATION: Duration = Duration::from_secs(15);
const TERM: Duration = Duration::from_secs(10);

fn candidate(identity: &str) -> Candidate {
    Candidate::new(&LeaseOptions {
        namespace: None,
        name: "l".to_owned(),
        identity: identity.to_owned(),
        duration: DURATION,
        grace: DURATION.saturating_sub(TERM),
    })
}

/// So many microseconds after 1970.
fn wall(micros: i64) -> Timestamp {
    Timestamp::from_microsecond(micros).unwrap()
}

/// A Lease of this holder, as another program may have written it.
fn record(version: u64, holder: Option<&str>, seconds: Option<i32>) -> Record {
    Record {
        version: version.to_string(),
        spec: LeaseSpec {
            holder_identity: holder.map(str::to_owned),
            lease_duration_seconds: seconds,
            renew_time: Some(MicroTime(wall(0))),
            ..LeaseSpec::default()
        },
    }
}

/// The Lease at the API server.
#[derive(Default)]
struct Server {
    lease: Option<Record>,
    version: u64,
}

impl Server {
    /// Takes a bid if no other write has come before it, as the API does.
    fn write(&mut self, bid: &Bid) -> Option<Record> {
        let version = self.lease.as_ref().map(|lease| &lease.version);
        if version != bid.version.as_ref() {
            return None;
        }
        let mut spec = self.lease.take().unwrap_or(record(0, None, None)).spec;
        let before = spec.clone();
        let set = bid.spec.clone();
        spec.holder_identity = set.holder_identity.or(spec.holder_identity);
        spec.lease_duration_seconds = set.lease_duration_seconds.or(spec.lease_duration_seconds);
        spec.acquire_time = set.acquire_time.or(spec.acquire_time);
        spec.renew_time = set.renew_time.or(spec.renew_time);
        spec.lease_transitions = set.lease_transitions.or(spec.lease_transitions);
        // What changes nothing makes no version.
        if bid.version.is_none() || spec != before {
            self.version += 1;
        }
        self.lease = Some(Record {
            version: self.version.to_string(),
            spec,
        });
        self.lease.clone()
    }
}

/// The part of a look at the Lease that comes next.
enum Next {
    Read,
    Observe(Option<Record>),
    Write(Bid, Instant),
    Win(Option<Record>, Instant),
}

/// A candidate whose looks are done in parts, so that time passes and others act between any two of them.
struct Actor {
    candidate: Candidate,
    next: Next,
}

impl Actor {
    fn new(identity: &str) -> Self {
        Self {
            candidate: candidate(identity),
            next: Next::Read,
        }
    }

    /// Does the next part of a look. One that is cut off does not get the answer to its write.
    fn act(&mut self, server: &mut Server, clock: Timestamp, now: Instant, is_cut_off: bool) {
        let Self { candidate, next } = self;
        *next = match std::mem::replace(next, Next::Read) {
            Next::Read => Next::Observe(server.lease.clone()),
            Next::Observe(record) => {
                candidate.observe(record, now);
                match candidate.bid(clock, now) {
                    Some(bid) => Next::Write(bid, now),
                    None => Next::Read,
                }
            }
            Next::Write(bid, asked) => match server.write(&bid) {
                _ if is_cut_off => Next::Read,
                written => Next::Win(written, asked),
            },
            Next::Win(written, asked) => {
                if let Some(record) = written {
                    candidate.won(record, asked, now);
                }
                Next::Read
            }
        };
    }
}

/// Times from one act to the next: most are short, so that there are leaders.
fn pause() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0..300_u64, 3 => 0..3_000_u64, 1 => 0..40_000_u64]
}

/// Microseconds of a host's clock, which may stand still, step, and be wrong by years.
fn clock() -> impl Strategy<Value = i64> {
    prop_oneof![2 => 0..3_i64, 1 => -4_000_000_000_000_000..4_000_000_000_000_000_i64]
}

proptest! {
    #[test]
    fn there_are_never_two_leaders(
        acts in vec((0..3_usize, pause(), clock(), prop::bool::weighted(0.1), 0..60_u8), 1..400)
    ) {
        let mut server = Server::default();
        let mut actors = ["a", "b", "c"].map(Actor::new);
        let mut now = Instant::now();
        for (number, pause, clock, is_cut_off, event) in acts {
            now += Duration::from_millis(pause);
            let actor = &mut actors[number];
            if event == 0 {
                // It ends, and begins anew under its name.
                if let Some(bid) = actor.candidate.give_back(wall(clock)) {
                    server.write(&bid);
                }
                let identity = actor.candidate.identity.clone();
                *actor = Actor::new(&identity);
            } else {
                actor.act(&mut server, wall(clock), now, is_cut_off);
            }
            let leads = |actor: &&Actor| actor.candidate.end(now).is_some();
            prop_assert!(actors.iter().filter(leads).count() <= 1);
        }
    }

    #[test]
    fn a_follower_takes_the_lease_of_a_dead_holder_in_time(
        renewals in vec(0..10_000_u64, 0..5), clock in clock(), randoms in vec(any::<u64>(), 100),
    ) {
        let mut server = Server::default();
        let mut holder = Actor::new("holder");
        let mut follower = Actor::new("follower");
        let mut now = Instant::now();
        let mut renewals = renewals.into_iter();
        let mut next_renewal = now;
        let mut seen = (String::new(), now);
        for random in randoms {
            // The holder's clock stands still at any time.
            if next_renewal <= now && let Some(pause) = renewals.next() {
                (0..4).for_each(|_| holder.act(&mut server, wall(clock), now, false));
                next_renewal = now + Duration::from_millis(pause);
            }
            let version = server.lease.as_ref().map_or("", |lease| &lease.version);
            if seen.0 != version {
                seen = (version.to_owned(), now);
            }
            follower.act(&mut server, wall(0), now, false);
            follower.act(&mut server, wall(0), now, false);
            if matches!(follower.next, Next::Write(..)) {
                let late = now - seen.1;
                let is_first = server.lease.is_none();
                prop_assert!(is_first || (DURATION..=DURATION + RETRY).contains(&late), "{late:?}");
                return Ok(());
            }
            now = follower.candidate.next_look(random, now);
        }
        prop_assert!(false, "it never takes it");
    }

    #[test]
    fn a_look_comes_within_the_retry_period_and_not_after_the_end_of_a_term(random in any::<u64>(), late in 0..10_000_u64) {
        let mut leader = candidate("a");
        let asked = Instant::now();
        let pause = leader.next_look(random, asked) - asked;
        prop_assert!((RETRY / 2..RETRY).contains(&pause), "{pause:?}");
        leader.won(record(1, Some("a"), Some(15)), asked, asked);
        let now = asked + Duration::from_millis(late);
        prop_assert!(leader.next_look(random, now) <= asked + TERM);
        prop_assert!(leader.look_until(now) <= asked + TERM);
    }
}

#[test]
fn a_lease_is_taken_when_it_is_free_and_renewed_by_its_holder() {
    for (what, holder, seconds, free_after) in [
        ("it is one's own", Some("a"), Some(15), 0),
        ("it was given back", Some(""), Some(1), 0),
        ("it has no holder", None, Some(3600), 0),
        ("its holder has another duration", Some("b"), Some(40), 40),
        ("its holder states no duration", Some("b"), None, 15),
        ("its holder states a wrong one", Some("b"), Some(-1), 15),
    ] {
        let mut one = candidate("a");
        let start = Instant::now();
        one.observe(Some(record(1, holder, seconds)), start);
        for late in [0, 1, 14, 15, 39, 40] {
            let bid = one.bid(wall(1), start + Duration::from_secs(late));
            assert_eq!(bid.is_some(), late >= free_after, "{what}, after {late} s");
        }
        // Each change begins the time anew.
        let later = start + Duration::from_secs(100);
        one.observe(Some(record(2, holder, seconds)), later);
        let is_free = one.bid(wall(1), later).is_some();
        assert_eq!(is_free, free_after == 0, "{what}");
    }
}

#[test]
fn the_fields_are_those_of_client_go() {
    let mut server = Server::default();
    let mut one = candidate("a");
    let now = Instant::now();
    let time = |micros| Some(MicroTime(wall(micros)));
    let mut act = |one: &mut Candidate, micros| {
        one.observe(server.lease.clone(), now);
        let bid = one.bid(wall(micros), now).unwrap();
        one.won(server.write(&bid).unwrap(), now, now);
        let spec = server.lease.clone().unwrap().spec;
        assert_eq!(spec.lease_duration_seconds, Some(15));
        (spec.acquire_time, spec.renew_time, spec.lease_transitions)
    };
    assert_eq!(act(&mut one, 5), (time(5), time(5), Some(0)));
    assert_eq!(act(&mut one, 9), (time(5), time(9), Some(0)));
    // Its clock stands still: the renewal is one all the same.
    assert_eq!(act(&mut one, 9), (time(5), time(10), Some(0)));
    assert_eq!(one.end(now), Some(now + TERM));
    assert_eq!(one.end(now + TERM), None);

    let bid = one.give_back(wall(20)).unwrap();
    assert_eq!(one.end(now), None);
    server.write(&bid).unwrap();
    let given_back = server.lease.clone().unwrap().spec;
    assert_eq!(given_back.holder_identity.as_deref(), Some(""));
    assert_eq!(given_back.lease_duration_seconds, Some(1));
    assert_eq!(given_back.lease_transitions, Some(0));
    let mut two = candidate("b");
    two.observe(server.lease.clone(), now);
    assert_eq!(two.give_back(wall(21)), None, "it is not its own");
    let bid = two.bid(wall(30), now).unwrap();
    assert_eq!(bid.spec.lease_transitions, Some(1));
    assert_eq!(bid.spec.acquire_time, time(30));
}
