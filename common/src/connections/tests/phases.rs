//! The phases of connections by their packets and by time.

use crate::{
    SCTP, TCP, Tuple, UDP, V4, V6,
    connections::{
        Connection, Key, Meta, Phase, Refused, Role, Signal,
        tests::memory::{Heap, SECOND, connection, looked_up},
    },
};

const BACKEND: u32 = 0x0a01_0103;

/// A table with one connection in it, and a clock.
struct World {
    heap: Heap<V4>,
    connection: Connection<V4>,
    now: u32,
}

impl World {
    fn new(protocol: u8, seen: u16) -> Self {
        let heap = Heap::<V4>::new(64);
        let connection = connection(0x0a01_0105, 40_000, BACKEND, protocol, seen);
        let now = 1000;
        heap.table().open(&connection, now).unwrap();
        Self {
            heap,
            connection,
            now,
        }
    }

    fn key(&self, role: Role) -> Key<V4> {
        match role {
            Role::Forward => self.connection.forward,
            Role::Reply => self.connection.reply,
        }
    }

    /// A packet; whether its connection is known.
    fn packet(&self, role: Role, signal: Signal) -> bool {
        let table = self.heap.table();
        let Some(hit) = looked_up(&table, &self.key(role), signal.opens(), self.now) else {
            return false;
        };
        let expected = match role {
            Role::Forward => self.connection.translated(),
            Role::Reply => self.connection.client().reversed(),
        };
        assert_eq!(hit.translated(), expected);
        table.observe(&hit, signal, self.now);
        true
    }

    fn client(&self, signal: Signal) -> bool {
        self.packet(Role::Forward, signal)
    }

    fn backend(&self, signal: Signal) -> bool {
        self.packet(Role::Reply, signal)
    }

    fn phase(&self) -> Option<Phase> {
        let table = self.heap.table();
        let hit = table.find(&self.key(Role::Forward))?;
        let pair = table.pair(hit.half())?;
        Some(Phase::of(pair.forward.meta, pair.reply.meta))
    }

    fn wait(&mut self, seconds: u32) {
        self.now += seconds * SECOND;
    }
}

#[test]
fn a_connection_is_established_by_the_acknowledgment_of_the_syn_ack_alone() {
    let world = World::new(TCP, Meta::OPENED);
    assert_eq!(world.phase(), Some(Phase::SynSent));
    assert!(
        world.client(Signal::acknowledge(501)),
        "nobody has answered"
    );
    assert_eq!(world.phase(), Some(Phase::SynSent));
    assert!(world.backend(Signal::answer(501)));
    assert_eq!(world.phase(), Some(Phase::SynReceived));
    for guess in [500, 502, 0] {
        assert!(world.client(Signal::acknowledge(guess)));
        assert!(
            world.backend(Signal::DATA),
            "a backend does not prove a client"
        );
        assert_eq!(world.phase(), Some(Phase::SynReceived));
    }
    assert!(world.client(Signal::acknowledge(501)));
    assert_eq!(world.phase(), Some(Phase::Established));
    assert!(
        world.backend(Signal::answer(777)),
        "a late one changes nothing"
    );
    assert_eq!(world.phase(), Some(Phase::Established));
}

#[test]
fn early_data_may_be_acknowledged_with_the_syn_ack() {
    let world = World::new(TCP, Meta::OPENED);
    world.backend(Signal::answer(501));
    let data = Signal::acknowledge(9).with_payload(9);
    for (signal, number) in [
        (Signal::acknowledge(9), 502),
        (Signal::open(500).with_payload(9), 502),
        (data, 500),
        (data, 501 + 65_537),
    ] {
        world.backend(signal);
        world.client(Signal::acknowledge(number));
        assert_eq!(world.phase(), Some(Phase::SynReceived), "{number}");
    }
    world.client(Signal::acknowledge(501 + 65_536));
    assert_eq!(world.phase(), Some(Phase::Established));
}

#[test]
fn half_open_connections_are_forgotten_after_a_minute() {
    let mut world = World::new(TCP, Meta::OPENED);
    world.backend(Signal::answer(501));
    world.wait(61);
    assert!(!world.client(Signal::acknowledge(501)));
    assert_eq!(world.phase(), None);
    world
        .heap
        .table()
        .open(&world.connection, world.now)
        .unwrap();
}

#[test]
fn a_connection_picked_up_is_assured_by_an_answer_that_is_no_reset() {
    let world = World::new(TCP, 0);
    assert_eq!(world.phase(), Some(Phase::PickedUp));
    world.client(Signal::acknowledge(9));
    assert_eq!(world.phase(), Some(Phase::PickedUp));
    world.backend(Signal::RESET);
    assert_eq!(world.phase(), Some(Phase::Closed));
    world.client(Signal::DATA);
    assert_eq!(world.phase(), Some(Phase::PickedUp));
    world.backend(Signal::acknowledge(9));
    assert_eq!(world.phase(), Some(Phase::Established));
}

fn established() -> World {
    let world = World::new(TCP, Meta::OPENED);
    world.backend(Signal::answer(501));
    world.client(Signal::acknowledge(501));
    assert_eq!(world.phase(), Some(Phase::Established));
    world
}

#[test]
fn any_later_segment_of_either_side_undoes_a_reset() {
    for resetting in [Role::Forward, Role::Reply] {
        for speaking in [Role::Forward, Role::Reply] {
            let mut world = established();
            world.packet(resetting, Signal::RESET);
            assert_eq!(
                world.phase(),
                Some(Phase::Closed),
                "{resetting:?} {speaking:?}"
            );
            world.packet(speaking, Signal::DATA);
            assert_eq!(
                world.phase(),
                Some(Phase::Established),
                "{resetting:?} {speaking:?}"
            );
            world.wait(3600);
            assert!(world.client(Signal::DATA));
        }
    }
}

#[test]
fn a_reset_connection_whose_time_is_over_is_revived_or_makes_room_for_the_next() {
    let mut world = established();
    world.client(Signal::RESET);
    world.wait(3600);
    assert!(
        world.backend(Signal::DATA),
        "the reset was not the client's"
    );
    assert_eq!(world.phase(), Some(Phase::Established));
    world.client(Signal::RESET);
    world.wait(11);
    assert!(world.client(Signal::open(7)), "nor is this one's");
    assert_eq!(world.phase(), Some(Phase::Closed));
    world.wait(24 * 3600 + 1);
    assert!(!world.client(Signal::open(7)));
    assert_eq!(world.phase(), None);
    let mut refused = World::new(TCP, Meta::OPENED);
    refused.backend(Signal::RESET);
    refused.wait(11);
    assert!(!refused.client(Signal::DATA), "it never was open");
}

#[test]
fn a_connection_that_both_have_ended_is_forgotten() {
    for sides in [[Role::Forward, Role::Reply], [Role::Reply, Role::Forward]] {
        let mut world = established();
        // Each acknowledges the other's data.
        let fin = |role| match role {
            Role::Forward => Signal::acknowledge(600).with_fin(700),
            Role::Reply => Signal::acknowledge(700).with_fin(600),
        };
        world.packet(sides[0], fin(sides[0]));
        world.backend(Signal::acknowledge(700));
        assert_eq!(world.phase(), Some(Phase::Closing));
        world.wait(100);
        world.packet(sides[1], fin(sides[1]));
        world.backend(Signal::acknowledge(700));
        assert_eq!(world.phase(), Some(Phase::TimeWait));
        world.wait(61);
        assert!(!world.client(Signal::DATA));
        assert!(!world.backend(Signal::DATA), "both halves are gone");
    }
}

#[test]
fn either_side_keeps_a_connection() {
    for speaking in [Role::Forward, Role::Reply] {
        let mut world = World::new(UDP, 0);
        world.backend(Signal::DATA);
        for _ in 0..100 {
            world.wait(20);
            assert!(world.packet(speaking, Signal::DATA));
        }
        let other = match speaking {
            Role::Forward => Role::Reply,
            Role::Reply => Role::Forward,
        };
        assert!(world.packet(other, Signal::DATA), "{speaking:?} has spoken");
    }
}

#[test]
fn a_flow_lasts_longer_once_it_has_been_answered_and_has_lasted() {
    let mut world = World::new(UDP, 0);
    assert_eq!(world.phase(), Some(Phase::Unreplied));
    world.wait(3);
    world.client(Signal::DATA);
    assert_eq!(world.phase(), Some(Phase::Unreplied), "nobody answers");

    let mut world = World::new(UDP, 0);
    world.backend(Signal::DATA);
    assert_eq!(world.phase(), Some(Phase::Replied));
    world.wait(1);
    world.client(Signal::DATA);
    assert_eq!(world.phase(), Some(Phase::Replied), "one exchange");
    world.wait(2);
    world.client(Signal::DATA);
    assert_eq!(world.phase(), Some(Phase::Lasting));
    world.wait(119);
    assert!(world.backend(Signal::DATA));
    world.wait(121);
    assert!(!world.backend(Signal::DATA));
    assert!(!world.client(Signal::DATA));

    let mut world = World::new(UDP, 0);
    world.backend(Signal::DATA);
    world.wait(31);
    assert!(!world.client(Signal::DATA), "30 s for one exchange");
}

#[test]
fn an_association_is_open_when_the_backend_has_taken_the_cookie() {
    let world = World::new(SCTP, Meta::OPENED);
    world.backend(Signal::answer(0));
    world.client(Signal::DATA);
    assert_eq!(world.phase(), Some(Phase::SctpOpening));
    world.backend(Signal::DATA);
    assert_eq!(world.phase(), Some(Phase::SctpEstablished));
    world.backend(Signal::FIN);
    assert_eq!(world.phase(), Some(Phase::SctpClosing));
    world.client(Signal::FIN);
    assert_eq!(world.phase(), Some(Phase::SctpClosed));
}

#[test]
fn a_tuple_is_one_connections() {
    let world = World::new(TCP, Meta::OPENED);
    let table = world.heap.table();
    assert_eq!(
        table.open(&world.connection, world.now),
        Err(Refused::Exists)
    );
    let mut other = world.connection;
    let mut client = other.client();
    client.destination_port = 443_u16.to_be();
    other.forward = Key::new(&client, TCP, Role::Forward);
    assert_eq!(
        table.open(&other, world.now),
        Err(Refused::Exists),
        "the same reply"
    );
    other.set_source_port(61_000_u16.to_be());
    assert_eq!(table.open(&other, world.now), Ok(()));
    let hit = table.find(&other.reply).unwrap();
    assert_eq!(hit.translated(), other.client().reversed());
    let found = table.pair(hit.half()).unwrap();
    assert!(table.end(&found) && !table.end(&found));
    assert_eq!(
        table.open(&other, world.now),
        Ok(()),
        "its tuples are free again"
    );
}

#[test]
fn six_dozen_bits_of_address_are_told_apart() {
    let heap = Heap::<V6>::new(64);
    let table = heap.table();
    let tuple = |word: usize, side: u32| {
        let mut addresses = [0; 8];
        addresses[word] = 1;
        let (source, destination) = addresses.split_at(4);
        Tuple::<V6> {
            source: source.try_into().unwrap(),
            destination: destination.try_into().unwrap(),
            source_port: 1,
            destination_port: side as u16,
        }
    };
    for word in 0..8 {
        let new = Connection {
            backend: 5,
            ..Connection::new(&tuple(word, 1), &tuple(word, 2), UDP)
        };
        assert_eq!(table.open(&new, 0), Ok(()));
        let hit = table.find(&new.forward).unwrap();
        assert_eq!(hit.translated(), new.translated());
        assert_eq!(table.backend(&hit.half()), Some((5, 0)));
    }
}
