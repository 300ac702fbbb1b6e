//! Sets of splits: shares that are no weights, and one that is refused.

use std::num::NonZeroU32;

use shunt_common::{Slot, maglev::Header};
use shunt_model::{
    PortPart, Split, SplitFrontends, SplitMode, SplitShares, maglev::EntriesPerBackend,
};

use super::*;
use crate::{
    maps::service_table::FrontendsOf,
    publish::{read_back, services::Services},
};

/// A set of the service `web` with backends of these shares: (last byte of the address, share).
fn split(backends: &[(u8, u32)], refused: u32) -> BackendSet {
    let weights: Vec<(u8, u32)> = backends
        .iter()
        .map(|(last, share)| (*last, u32::from(*share > 0)))
        .collect();
    let mut set = set("web", &weights);
    let set = Arc::make_mut(&mut set);
    set.split = Some(SplitShares {
        split: Arc::new(Split {
            mode: SplitMode::Strict,
            frontends: SplitFrontends::All,
            backends: Vec::new(),
        }),
        of_backends: backends.iter().map(|(_, share)| *share).collect(),
        refused,
        first: None,
    });
    set.clone()
}

fn one(set: BackendSet) -> Frontend {
    frontend(&Arc::new(set))
}

fn cell(tables: &MemoryTables<V4>) -> Cell {
    tables.cells[tables.frontends[&key(80)] as usize]
}

/// Returns the count of evenly spread numbers, of so many, that each backend has, by its address's last byte; 0: none.
fn drawn(tables: &MemoryTables<V4>, count: u32) -> BTreeMap<u8, u32> {
    let cell = cell(tables);
    let mut drawn = BTreeMap::new();
    for number in 0..count {
        let (slot, fraction) = Slot::locate(number * (u32::MAX / count), cell.count());
        let index = tables.slots[(cell.offset() + slot) as usize].select(fraction);
        let last = match index {
            Slot::REFUSED => 0,
            index => tables.backends[index as usize].address.to_ne_bytes()[3],
        };
        *drawn.entry(last).or_default() += 1;
    }
    drawn
}

const QUARTER: u32 = 1 << 30;

/// Change of a slot by another process.
type Damage = fn(&mut Slot);

#[test]
fn slots_give_each_backend_its_share_and_nobody_what_is_refused() {
    let mut publisher = publisher();
    let web = one(split(
        &[(1, 2 * QUARTER), (2, QUARTER), (3, 0)],
        QUARTER - 1,
    ));
    publisher.publish(&[(key(80), &web)], &[]).unwrap();
    let tables = &publisher.tables().inner;
    assert_eq!(cell(tables).count(), 4, "one slot more than backends");
    assert!(!cell(tables).has(Cell::UNUSABLE));
    let drawn = drawn(tables, 4000);
    for (last, wanted) in [(0, 1000), (1, 2000), (2, 1000)] {
        assert!(drawn[&last].abs_diff(wanted) <= 4, "{drawn:?}");
    }
    assert_eq!(drawn.len(), 3, "a share of 0 has nothing: {drawn:?}");
}

#[test]
fn where_no_backend_has_a_share_the_frontend_refuses() {
    let mut publisher = publisher();
    for set in [split(&[(1, 0), (2, 0)], 0), split(&[], 0)] {
        let web = one(set);
        publisher.publish(&[(key(80), &web)], &[]).unwrap();
        assert!(cell(&publisher.tables().inner).has(Cell::UNUSABLE));
    }
}

#[test]
fn the_next_agent_finds_a_split_as_it_is_and_repairs_it_if_it_is_not() {
    for maglev in [None, Some(EntriesPerBackend::default().table_size(3))] {
        let mut set = split(&[(1, 2 * QUARTER), (2, QUARTER)], QUARTER - 1);
        set.maglev = maglev;
        let web = one(set);
        let mut publisher = Publisher::new(Watched::new(Capacity {
            frontends: 8,
            slots: 1024,
            backends: 32,
        }));
        publisher.publish(&[(key(80), &web)], &[]).unwrap();
        let right = publisher.tables().inner.clone();
        assert_eq!(cell(&right).has(Cell::MAGLEV), maglev.is_some());

        let mut next = Publisher::new(publisher.tables.tables);
        next.resync(&[(key(80), &web)]).unwrap();
        assert_eq!(next.writes(), 0, "{maglev:?}");
        let live = read_back::read(&right).unwrap();
        assert!(live[0].is(&web), "{maglev:?}");
        assert!(
            live[0].refused.abs_diff(QUARTER) <= 2,
            "{}",
            live[0].refused
        );
        assert!(live[0].shares[0].abs_diff(2 * QUARTER) <= 2);
        assert_eq!(live[0].backends[..], web.backends.backends[..]);

        let damages: [(&str, Damage); 3] = [
            ("another share", |slot| slot.threshold ^= 1 << 20),
            ("nothing is refused", |slot| {
                if slot.backend == Slot::REFUSED {
                    slot.backend = 0;
                }
            }),
            ("all is refused", |slot| slot.alias = Slot::REFUSED),
        ];
        for (what, damage) in damages {
            let tables = &mut next.tables_mut().inner;
            let cell = cell(tables);
            let slots = &mut tables.slots[cell.offset() as usize..][..cell.count() as usize];
            slots.iter_mut().for_each(damage);
            let live = read_back::read(tables).unwrap();
            assert!(!live[0].is(&web), "{what}");
            next.resync(&[(key(80), &web)]).unwrap();
            let live = read_back::read(&next.tables().inner).unwrap();
            assert!(live[0].is(&web), "{what}");
        }
    }
}

#[test]
fn the_cell_shows_that_a_share_is_refused_also_one_of_an_agent_that_did_not_know_the_flag() {
    let mut publisher = publisher();
    for refused in [0, QUARTER] {
        let web = one(split(&[(1, 2 * QUARTER), (2, QUARTER)], refused));
        publisher.publish(&[(key(80), &web)], &[]).unwrap();
        let tables = &publisher.tables().inner;
        assert_eq!(cell(tables).has(Cell::REFUSES), refused > 0);
    }
    let web = one(split(&[(1, 2 * QUARTER), (2, QUARTER)], QUARTER));
    let mut older = publisher.tables.tables;
    let index = older.inner.frontends[&key(80)] as usize;
    older.inner.cells[index] = older.inner.cells[index].without(Cell::REFUSES);
    assert!(!read_back::read(&older.inner).unwrap()[0].is(&web));
    let mut next = Publisher::new(older);
    next.resync(&[(key(80), &web)]).unwrap();
    assert!(cell(&next.tables().inner).has(Cell::REFUSES));
}

#[test]
fn other_shares_are_another_slice_and_the_same_backends() {
    let mut publisher = publisher();
    publisher
        .publish(&[(key(80), &one(split(&[(1, QUARTER), (2, 0)], 0)))], &[])
        .unwrap();
    let known = [1, 2].map(|last| remembered(&publisher, 80, last));
    for set in [
        split(&[(1, QUARTER), (2, QUARTER)], 0),
        split(&[(1, QUARTER), (2, QUARTER)], QUARTER),
        split(&[(1, 0), (2, QUARTER)], 0),
        // Without the split, and with it again.
        (*set("web", &[(1, 1), (2, 1)])).clone(),
        split(&[(1, 0), (2, QUARTER)], QUARTER),
    ] {
        let refused = set.refused();
        publisher.publish(&[(key(80), &one(set))], &[]).unwrap();
        let now = [1, 2].map(|last| remembered_of(&publisher, last));
        assert_eq!(now, known, "connections stay, {refused} refused");
    }
}

/// As [`remembered`], where the last slot may name no backend.
fn remembered_of(publisher: &Publisher<V4, Watched>, last: u8) -> (u32, u16) {
    let tables = &publisher.tables().inner;
    let cell = cell(tables);
    let slots = &tables.slots[cell.offset() as usize..][..cell.count() as usize];
    let mut found = slots.iter().filter_map(|slot| {
        let backend = tables.backends.get(slot.backend as usize)?;
        let is_it = backend.address == u32::from_ne_bytes([10, 1, 1, last]);
        is_it.then_some((slot.backend, backend.generation))
    });
    found.next().unwrap()
}

#[test]
fn a_table_has_entries_for_what_is_refused() {
    let mut set = split(&[(1, 2 * QUARTER), (2, QUARTER)], QUARTER - 1);
    let size: NonZeroU32 = EntriesPerBackend::default().table_size(3);
    set.maglev = Some(size);
    let mut publisher = Publisher::new(Watched::new(Capacity {
        frontends: 8,
        slots: 1024,
        backends: 32,
    }));
    publisher.publish(&[(key(80), &one(set))], &[]).unwrap();
    let tables = &publisher.tables().inner;
    let cell = cell(tables);
    let header = Header::of(&tables.slots[(cell.offset() + cell.count()) as usize]);
    let refused = (0..4096u32).filter(|number| {
        let (slot, byte) = header.locate(number << 20);
        let position = header.position(&tables.slots[slot as usize], byte);
        assert!(position < cell.count());
        tables.slots[(cell.offset() + position) as usize].backend == Slot::REFUSED
    });
    let refused = refused.count();
    assert!((1000..1050).contains(&refused), "{refused} of 4096");
}

#[test]
fn frontends_of_a_port_with_and_without_the_split_are_counted_as_one() {
    let services = Services::in_memory();
    let of_family = services.of_family(FrontendsOf::V4);
    let mut publisher = Publisher::counting(Watched::new(CAPACITY), of_family);
    let with = one(split(&[(1, QUARTER), (2, 3 * QUARTER)], 0));
    let mut beside = set("web", &[(1, 5)]);
    Arc::make_mut(&mut beside).part = PortPart::BesideSplit;
    let without = frontend(&beside);
    publisher
        .publish(&[(key(80), &with), (key(81), &without)], &[])
        .unwrap();
    let weight = |port, publisher: &Publisher<V4, Watched>| {
        let (index, _) = remembered(publisher, port, 1);
        (index, publisher.tables().backend(index).weight)
    };
    let (of_split, own) = (weight(80, &publisher), weight(81, &publisher));
    assert_ne!(of_split.0, own.0, "a backend of its own");
    assert_eq!((of_split.1, own.1), (1, 5));
    let counted = || services.read().unwrap().len();
    assert_eq!(counted(), 1);
    let writes = publisher.writes();
    publisher
        .resync(&[(key(80), &with), (key(81), &without)])
        .unwrap();
    assert_eq!(publisher.writes(), writes);
    assert_eq!(counted(), 1);
    for (gone, left) in [(80, 1), (81, 0)] {
        publisher.publish(&[], &[key(gone)]).unwrap();
        publisher.reclaim().unwrap();
        assert_eq!(counted(), left, "without {gone}");
    }
    assert_eq!(publisher.backends.free_count(), CAPACITY.backends);
}
