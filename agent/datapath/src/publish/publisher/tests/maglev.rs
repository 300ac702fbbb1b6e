//! Maglev tables: shared, published as everything else, found again, and given up where there is no
//! room.

use std::num::NonZeroU32;

use shunt_common::maglev::{Header, Seal};
use shunt_model::maglev::EntriesPerBackend;

use super::*;
use crate::publish::maglev::MaglevUse;

/// Room for so many of the smallest tables, and a quarter besides.
const fn room_for(tables: u32) -> Capacity {
    Capacity {
        frontends: 8,
        slots: (tables * TABLE + 40) * 4 / 3,
        backends: 32,
    }
}

/// The slots of a table of 4,093 entries of a byte each, with its seal.
const TABLE: u32 = 257;

fn size() -> NonZeroU32 {
    EntriesPerBackend::default().table_size(2)
}

fn maglev(name: &str, backends: &[(u8, u32)]) -> Frontend {
    let mut set = set(name, backends);
    Arc::make_mut(&mut set).maglev = Some(size());
    frontend(&set)
}

fn publisher(tables: u32) -> Publisher<V4, Watched> {
    Publisher::new(Watched::new(room_for(tables)))
}

fn cell(tables: &MemoryTables<V4>, port: u16) -> Cell {
    tables.cells[tables.frontends[&key(port)] as usize]
}

fn header(tables: &MemoryTables<V4>, port: u16) -> Header {
    let cell = cell(tables, port);
    assert!(cell.has(Cell::MAGLEV));
    Header::of(&tables.slots[(cell.offset() + cell.count()) as usize])
}

/// Returns the backend that packets of each number see, by the last byte of its address.
fn chosen(tables: &MemoryTables<V4>, port: u16) -> Vec<u8> {
    let (cell, header) = (cell(tables, port), header(tables, port));
    (0..4096)
        .map(|number| {
            let (slot, byte) = header.locate(number << 20);
            let position = header.position(&tables.slots[slot as usize], byte);
            assert!(position < cell.count());
            let slot = tables.slots[(cell.offset() + position) as usize];
            let [.., last] = tables.backends[slot.backend as usize].address.to_ne_bytes();
            last
        })
        .collect()
}

fn used(publisher: &Publisher<V4, Watched>) -> (u64, usize) {
    let MaglevUse {
        tables,
        without_room,
        ..
    } = publisher.maglev_use();
    (tables, without_room.len())
}

#[test]
fn service_ports_with_the_same_backends_share_a_table() {
    let mut publisher = publisher(4);
    let backends = [(1, 1), (2, 3)];
    let (web, api) = (maglev("web", &backends), maglev("api", &backends));
    let other = maglev("other", &[(1, 1), (2, 1)]);
    publisher
        .publish(&[(key(80), &web), (key(81), &api), (key(82), &other)], &[])
        .unwrap();
    let tables = &publisher.tables().inner;
    assert_eq!(header(tables, 80), header(tables, 81));
    assert_ne!(header(tables, 80), header(tables, 82), "other weights");
    assert_ne!(cell(tables, 80), cell(tables, 81), "backends of their own");
    assert_eq!(chosen(tables, 80), chosen(tables, 81));
    let chosen = chosen(tables, 80);
    let share: u32 = chosen.iter().map(|last| u32::from(*last == 2)).sum();
    assert!((3000..3150).contains(&share), "{share} of 4096");
    assert_eq!(used(&publisher), (2, 0));

    publisher.publish(&[], &[key(80), key(82)]).unwrap();
    publisher.reclaim().unwrap();
    assert_eq!(used(&publisher), (1, 0), "one of them uses it still");
    publisher.publish(&[], &[key(81)]).unwrap();
    publisher.reclaim().unwrap();
    assert_eq!(used(&publisher), (0, 0));
    assert_eq!(publisher.slots.free_count(), room_for(4).slots);
}

#[test]
fn after_every_write_packets_choose_as_before_or_as_after() {
    let mut publisher = publisher(4);
    let steps = [
        maglev("web", &[(1, 1), (2, 1), (3, 1)]),
        maglev("web", &[(1, 1), (3, 1)]),
        maglev("web", &[(1, 1), (3, 1), (4, 2)]),
        maglev("web", &[(4, 2), (5, 1)]),
    ];
    publisher.publish(&[(key(80), &steps[0])], &[]).unwrap();
    for step in &steps[1..] {
        let before = chosen(&publisher.tables().inner, 80);
        publisher.tables.tables.states.clear();
        publisher.publish(&[(key(80), step)], &[]).unwrap();
        let after = chosen(&publisher.tables().inner, 80);
        let states = &publisher.tables().states;
        let seen: Vec<_> = states.iter().map(|state| chosen(state, 80)).collect();
        assert!(seen.iter().all(|seen| *seen == before || *seen == after));
        assert!(seen.contains(&before) && seen.contains(&after));
        let changes = seen.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert_eq!(changes, 1, "by one store");
        publisher.reclaim().unwrap();
    }
    assert_eq!(used(&publisher), (1, 0));
}

#[test]
fn one_backend_alone_needs_no_table() {
    let mut publisher = publisher(1);
    let frontends = [
        maglev("web", &[(1, 1)]),
        maglev("api", &[(1, 1), (2, 0)]),
        maglev("none", &[]),
    ];
    let [web, api, none] = &frontends;
    publisher
        .publish(&[(key(80), web), (key(81), api), (key(82), none)], &[])
        .unwrap();
    for port in [80, 81, 82] {
        assert!(!cell(&publisher.tables().inner, port).has(Cell::MAGLEV));
    }
    assert_eq!(used(&publisher), (0, 0));
}

#[test]
fn what_does_not_fit_selects_by_weight_until_there_is_room() {
    let mut publisher = publisher(1);
    let (web, api) = (
        maglev("web", &[(1, 1), (2, 1)]),
        maglev("api", &[(3, 1), (4, 1)]),
    );
    publisher
        .publish(&[(key(80), &web), (key(81), &api)], &[])
        .unwrap();
    assert_eq!(
        publisher.maglev_use(),
        MaglevUse {
            tables: 1,
            slots: TABLE.into(),
            without_room: BTreeSet::from(["default/api:http".to_owned()]),
        }
    );
    let tables = &publisher.tables().inner;
    assert!(!cell(tables, 81).has(Cell::MAGLEV));
    assert_eq!(tables.resolve(key(81)).unwrap().len(), 2, "by weight");
    let writes = publisher.writes();
    publisher
        .resync(&[(key(80), &web), (key(81), &api)])
        .unwrap();
    assert_eq!(publisher.writes(), writes, "it is as it can be");

    let error = publisher.publish(&[(key(81), &api)], &[key(80)]);
    assert_eq!(error.map_err(|error| error.to_string()), Ok(()));
    publisher.reclaim().unwrap();
    publisher.publish(&[(key(81), &api)], &[]).unwrap();
    assert_eq!(used(&publisher), (1, 0));
    assert_eq!(chosen(&publisher.tables().inner, 81).len(), 4096);
}

#[test]
fn a_table_waits_for_what_is_being_freed() {
    let mut publisher = publisher(1);
    let before = maglev("web", &[(1, 1), (2, 1)]);
    publisher.publish(&[(key(80), &before)], &[]).unwrap();
    publisher.publish(&[], &[key(80)]).unwrap();
    let after = maglev("web", &[(1, 1), (3, 1)]);
    let error = publisher.publish(&[(key(80), &after)], &[]).unwrap_err();
    assert!(
        matches!(
            error,
            TableError::Full {
                table: Size::Slots,
                needed: TABLE,
                ..
            }
        ),
        "{error}"
    );
    publisher.reclaim().unwrap();
    publisher.publish(&[(key(80), &after)], &[]).unwrap();
    assert_eq!(used(&publisher), (1, 0));
}

#[test]
fn the_next_agent_finds_the_tables() {
    let mut first = publisher(3);
    let (web, api) = (
        maglev("web", &[(1, 1), (2, 1)]),
        maglev("api", &[(1, 1), (2, 1)]),
    );
    let wanted = [(key(80), &web), (key(81), &api)];
    first.publish(&wanted, &[]).unwrap();
    let mut second = Publisher::new(first.tables.tables);
    let writes = second.writes();
    second.resync(&wanted).unwrap();
    assert_eq!(second.writes(), writes);
    assert_eq!(used(&second), (1, 0));

    // The same, by weight now: the table goes.
    let by_weight = frontend(&set("web", &[(1, 1), (2, 1)]));
    second.resync(&[(key(80), &by_weight)]).unwrap();
    assert_eq!(used(&second), (0, 0));
    assert!(!cell(&second.tables().inner, 80).has(Cell::MAGLEV));
    second.resync(&[]).unwrap();
    assert_eq!(second.slots.free_count(), room_for(3).slots);
}

#[test]
fn whatever_others_write_into_a_table_is_mended() {
    type Damage = fn(&mut MemoryTables<V4>, Header, u32);
    let damages: [(&str, Damage); 6] = [
        ("an entry", |tables, header, _| {
            tables.slots[header.entries as usize + 100].alias ^= 1;
        }),
        ("the seal", |tables, header, _| {
            tables.slots[header.entries as usize - 1] = bytemuck::cast(Seal {
                fingerprint: 1,
                checksum: 2,
            });
        }),
        ("the place of the entries", |tables, _, behind| {
            tables.slots[behind as usize].backend = u32::MAX;
        }),
        ("the size", |tables, _, behind| {
            tables.slots[behind as usize].alias = u32::MAX;
        }),
        ("the width", |tables, _, behind| {
            tables.slots[behind as usize].threshold = 0;
        }),
        ("the affinity", |tables, _, behind| {
            tables.slots[behind as usize].affinity = 5;
        }),
    ];
    for (what, damage) in damages {
        let mut publisher = publisher(3);
        let web = maglev("web", &[(1, 1), (2, 1)]);
        publisher.publish(&[(key(80), &web)], &[]).unwrap();
        let right = chosen(&publisher.tables().inner, 80);
        let (found, at) = (
            header(&publisher.tables().inner, 80),
            cell(&publisher.tables().inner, 80),
        );
        let live = |publisher: &Publisher<V4, Watched>| {
            let live = crate::publish::read_back::read(&publisher.tables().inner).unwrap();
            live[0].is(&web)
        };
        assert!(live(&publisher), "{what}");
        let behind = at.offset() + at.count();
        damage(&mut publisher.tables_mut().inner, found, behind);
        assert!(!live(&publisher), "{what}");
        publisher.resync(&[(key(80), &web)]).unwrap();
        assert!(live(&publisher), "{what}");
        assert_eq!(chosen(&publisher.tables().inner, 80), right, "{what}");
        publisher.resync(&[]).unwrap();
        assert_eq!(publisher.slots.free_count(), room_for(3).slots, "{what}");
    }
}
