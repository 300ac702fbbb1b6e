//! Segments that anybody may have sent in a connection, and those that its backend's answer proves.

use crate::{
    TCP, V4,
    connections::{
        Connection, Meta, Pair, Phase, Role, Room, Signal, Table,
        tests::memory::{Heap, SECOND, Words, connection, looked_up},
    },
};

/// The acknowledgment numbers for the SYN that the connection began with, and for its FIN.
const OPENED: u32 = 101;
const ENDED: u32 = 701;
/// The number of another SYN.
const OTHER: u32 = 9000;

/// An established connection, which is silent for long, and a clock.
struct World {
    heap: Heap<V4>,
    of: Connection<V4>,
    now: u32,
}

impl World {
    fn new() -> Self {
        let heap = Heap::<V4>::new(64);
        let of = connection(0x0a01_0105, 40_000, 0x0a01_0103, TCP, Meta::OPENED);
        heap.table().open(&of, 1000).unwrap();
        let mut world = Self {
            heap,
            of,
            now: 1000,
        };
        world.backend(Signal::answer(501).to(OPENED));
        world.client(Signal::acknowledge(501));
        assert_eq!(world.phase(), Phase::Established);
        world.wait(3600);
        world
    }

    #[track_caller]
    fn packet(&self, role: Role, signal: Signal) {
        let key = match role {
            Role::Forward => self.of.forward,
            Role::Reply => self.of.reply,
        };
        let table = self.heap.table();
        let hit = looked_up(&table, &key, signal.opens(), self.now).unwrap();
        table.observe(&hit, signal, self.now);
    }

    #[track_caller]
    fn client(&self, signal: Signal) {
        self.packet(Role::Forward, signal);
    }

    #[track_caller]
    fn backend(&self, signal: Signal) {
        self.packet(Role::Reply, signal);
    }

    fn pair<T>(&self, judge: impl FnOnce(&Table<'_, &Heap<V4>>, Pair<Words<'_>>) -> T) -> T {
        let table = self.heap.table();
        let half = table.find_half(&self.of.forward).unwrap();
        judge(&table, table.pair(half).unwrap())
    }

    fn phase(&self) -> Phase {
        self.pair(|_, pair| Phase::of(pair.forward.meta, pair.reply.meta))
    }

    fn is_replaced(&self, is_current: bool) -> bool {
        self.pair(|table, pair| table.is_replaced(&pair, is_current, self.now))
    }

    fn is_settled(&self) -> bool {
        let table = self.heap.table();
        let hit = table.find(&self.of.reply).unwrap();
        Table::<&Heap<V4>>::is_settled(&hit)
    }

    /// A SYN that does not begin another connection.
    #[track_caller]
    fn syn(&self) {
        assert!(!self.is_replaced(true));
        self.client(Signal::open(OTHER));
    }

    fn wait(&mut self, seconds: u32) {
        self.now += seconds * SECOND;
    }
}

const FIN: Signal = Signal::acknowledge(501).with_fin(ENDED);

#[test]
fn a_fin_that_the_backend_does_not_acknowledge_ends_nothing() {
    let mut world = World::new();
    world.client(FIN);
    world.backend(Signal::acknowledge(ENDED - 1));
    assert_eq!(world.phase(), Phase::Established);
    world.wait(3600);
    assert!(!world.is_replaced(true));
    // The true one.
    world.client(Signal::acknowledge(501).with_fin(OPENED + 1));
    world.backend(Signal::acknowledge(OPENED + 1));
    assert_eq!(world.phase(), Phase::Closing);
    assert!(world.is_settled());
}

#[test]
fn a_connection_gives_way_while_its_fin_is_not_acknowledged() {
    let world = World::new();
    let room = || world.pair(|table, pair| table.room(&pair, world.now));
    assert_eq!(room(), Room::Never);
    world.client(FIN);
    assert_eq!(room(), Room::Doubtful, "its backend may be gone");
    world.backend(Signal::acknowledge(ENDED));
    assert_eq!(room(), Room::Never);
}

#[test]
fn a_fin_is_acknowledged_behind_its_payload() {
    let world = World::new();
    let fin = Signal::acknowledge(501)
        .with_fin(u32::MAX - 3)
        .with_payload(9);
    world.client(fin);
    world.backend(Signal::acknowledge(5));
    assert_eq!(world.phase(), Phase::Closing);
}

#[test]
fn a_syn_replaces_nothing_before_both_have_ended() {
    for before in [
        &[][..],
        &[(Role::Forward, FIN)],
        &[
            (Role::Forward, FIN),
            (Role::Reply, Signal::acknowledge(ENDED)),
        ],
        &[(Role::Reply, Signal::acknowledge(9).with_fin(600))],
        &[(Role::Forward, Signal::reset(3))],
        &[(Role::Reply, Signal::reset(3))],
        &[(Role::Forward, FIN), (Role::Forward, Signal::reset(3))],
    ] {
        let world = World::new();
        for (role, signal) in before {
            world.packet(*role, *signal);
        }
        assert!(!world.is_replaced(true), "{before:?}");
        assert!(!world.is_replaced(false), "{before:?}");
    }
    let world = World::new();
    world.client(FIN);
    world.backend(Signal::acknowledge(ENDED).with_fin(600));
    assert_eq!(world.phase(), Phase::TimeWait);
    assert!(world.is_replaced(true));
}

#[test]
fn a_syn_that_the_backend_answers_begins_the_connection_again() {
    let mut world = World::new();
    world.client(Signal::reset(3));
    world.syn();
    assert_eq!(world.phase(), Phase::Closed, "nobody has proved a thing");
    world.backend(Signal::answer(7001).to(OPENED));
    assert_eq!(
        world.phase(),
        Phase::Established,
        "an answer to another SYN"
    );
    world.backend(Signal::answer(7001).to(OTHER + 1));
    assert_eq!(world.phase(), Phase::SynReceived);
    world.client(Signal::acknowledge(501));
    assert_eq!(world.phase(), Phase::SynReceived);
    world.client(Signal::acknowledge(7001));
    assert_eq!(world.phase(), Phase::Established);
    assert!(world.is_settled());
    world.wait(3600);
    world.backend(Signal::DATA);
}

#[test]
fn a_challenge_tells_whose_reset_counts() {
    for (number, is_ended) in [(OPENED + 5, false), (0, false), (OPENED + 6, true)] {
        let world = World::new();
        world.syn();
        world.backend(Signal::acknowledge(OPENED + 6));
        assert_eq!(world.phase(), Phase::Established);
        assert!(world.is_settled());
        world.client(Signal::reset(number));
        assert_eq!(world.is_replaced(true), is_ended, "{number}");
    }
}

#[test]
fn a_backend_that_refuses_the_syn_has_no_connection() {
    for (acknowledged, is_ended) in [(OTHER, false), (OTHER + 1, true)] {
        let world = World::new();
        world.syn();
        world.backend(Signal::reset(0).to(acknowledged));
        assert_eq!(world.is_replaced(true), is_ended, "{acknowledged}");
    }
}

#[test]
fn a_gone_backend_is_left_after_a_syn_without_an_answer() {
    let mut world = World::new();
    assert!(!world.is_replaced(false), "it is to be asked first");
    world.syn();
    assert!(!world.is_replaced(false), "its answer may be on its way");
    world.wait(1);
    assert!(!world.is_replaced(true), "it serves yet");
    assert!(world.is_replaced(false));
    world.backend(Signal::acknowledge(OPENED));
    assert!(!world.is_replaced(false), "it is there");
    // It leaves one of two SYNs without an answer that come one after the other.
    world.syn();
    world.wait(1);
    assert!(!world.is_replaced(false));
    world.syn();
    world.wait(1);
    assert!(world.is_replaced(false));
}
