//! The table against a plain map, by any sequence of events.

use alloc::{collections::BTreeMap, vec::Vec};

use proptest::prelude::*;

use crate::{
    UDP, V4,
    connections::{
        Connection, Refused, Signal,
        tests::{
            integrity::check,
            memory::{Heap, SECOND, connection, looked_up},
        },
    },
};

/// An event.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// A client's packet, which opens its flow to this backend if it has none.
    Client(u8, u8),
    /// A backend's packet.
    Backend(u8, u8),
    /// The flow of this client ends.
    End(u8),
    /// So many seconds go by.
    Wait(u8),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => (0u8..5, 0u8..3).prop_map(|(client, backend)| Event::Client(client, backend)),
        4 => (0u8..5, 0u8..3).prop_map(|(client, backend)| Event::Backend(client, backend)),
        2 => (0u8..5).prop_map(Event::End),
        1 => (0u8..40).prop_map(Event::Wait),
    ]
}

/// A flow, as the model has it.
#[derive(Debug, Clone, Copy)]
struct Flow {
    backend: u8,
    begun: u32,
    last_seen: u32,
    is_answered: bool,
    lasts: bool,
}

impl Flow {
    fn is_over(&self, now: u32) -> bool {
        now - self.last_seen > if self.lasts { 120 } else { 30 } * SECOND
    }

    fn packet(&mut self, now: u32, is_reply: bool) {
        let is_first_of_tick = self.last_seen != now;
        let was_answered = self.is_answered;
        self.is_answered |= is_reply;
        self.last_seen = now;
        // Two seconds are looked at when time has gone on, or the first answer comes.
        let is_looked_at = is_first_of_tick || is_reply && !was_answered;
        self.lasts |= self.is_answered && is_looked_at && now - self.begun > 2 * SECOND;
    }
}

fn flow(client: u8, backend: u8) -> Connection<V4> {
    connection(7, 1000 + u16::from(client), backend.into(), UDP, 0)
}

proptest! {
    #[test]
    fn it_knows_what_a_map_knows(events in proptest::collection::vec(event(), 0..400)) {
        // Few homes, so that hints are used up and keys spill; and room for all near each.
        let heap = Heap::<V4>::new(2);
        let table = heap.table();
        let mut model = BTreeMap::<u8, Flow>::new();
        let mut now = 0;
        for event in events {
            model.retain(|_, flow| !flow.is_over(now));
            match event {
                Event::Client(client, backend) => {
                    let known = model.get(&client).map_or(backend, |flow| flow.backend);
                    let hit = looked_up(&table, &flow(client, known).forward, false, now);
                    prop_assert_eq!(hit.is_some(), model.contains_key(&client));
                    if let Some(hit) = hit {
                        prop_assert_eq!(hit.translated(), flow(client, known).translated());
                        prop_assert_eq!(table.backend(&hit.half()), Some((known.into(), 7)));
                        table.observe(&hit, Signal::DATA, now);
                        model.get_mut(&client).unwrap().packet(now, false);
                    } else {
                        let opened = open(&heap, &flow(client, backend), now);
                        prop_assert_eq!(opened, Ok(()));
                        let new = Flow {
                            backend,
                            begun: now,
                            last_seen: now,
                            is_answered: false,
                            lasts: false,
                        };
                        model.insert(client, new);
                    }
                }
                Event::Backend(client, backend) => {
                    let of = flow(client, backend);
                    let hit = looked_up(&table, &of.reply, false, now);
                    let known = model.get_mut(&client).filter(|flow| flow.backend == backend);
                    prop_assert_eq!(hit.is_some(), known.is_some());
                    if let (Some(hit), Some(known)) = (hit, known) {
                        prop_assert_eq!(hit.translated(), of.client().reversed());
                        table.observe(&hit, Signal::DATA, now);
                        known.packet(now, true);
                    }
                }
                Event::End(client) => {
                    let Some(known) = model.remove(&client) else { continue };
                    let hit = table.find(&flow(client, known.backend).forward);
                    let pair = hit.and_then(|hit| table.pair(hit.half()));
                    prop_assert!(pair.is_some_and(|pair| table.end(&pair)));
                }
                Event::Wait(seconds) => now += u32::from(seconds) * SECOND,
            }
            let there = check(&table);
            prop_assert!(there >= model.values().filter(|flow| !flow.is_over(now)).count());
        }
        let listed: Vec<u8> = model.keys().copied().collect();
        for client in listed {
            let known = model[&client];
            let hit = looked_up(&table, &flow(client, known.backend).forward, false, now);
            prop_assert_eq!(hit.is_some(), !known.is_over(now));
        }
    }
}

/// Opens a flow. One whose time is over may still have its tuples: those are given up.
fn open(heap: &Heap<V4>, new: &Connection<V4>, now: u32) -> Result<(), Refused> {
    let table = heap.table();
    looked_up(&table, &new.reply, false, now);
    table.open(new, now)
}
