//! Maglev tables give way to sets that select by weight, and come back.

use super::*;

/// The number of backends of a set that selects by weight, and so of its slots.
const WIDE: u32 = 10;

/// Room for one table of two backends, a quarter besides, and no second table. 14 wide sets fit beside it.
const SLOTS: u32 = 400;

fn small() -> Publishers {
    let capacity = Capacity {
        frontends: 64,
        slots: SLOTS,
        backends: 512,
    };
    DualPublisher::new(
        MemoryTables::new(capacity),
        MemoryTables::new(capacity),
        Families::default(),
    )
}

/// An address of one family, by a number.
type Address = fn(u8) -> IpAddr;

fn web(address: Address) -> (Key, Frontend) {
    by_table(frontend(address(1), &[address(3), address(4)]))
}

/// Frontends behind that of `web` with backends of their own.
fn wide(address: Address, count: u8) -> Vec<(Key, Frontend)> {
    (0..count)
        .map(|number| {
            let backends: Vec<IpAddr> = (0..WIDE)
                .map(|last| match address(number) {
                    IpAddr::V4(_) => [10, 2, number, last as u8].into(),
                    IpAddr::V6(_) => [0xfd00, 2, 0, 0, 0, 0, u16::from(number), last as u16].into(),
                })
                .collect();
            frontend(address(100 + number), &backends)
        })
        .collect()
}

fn removing(gone: &[(Key, Frontend)]) -> Changes {
    Changes {
        removed: gone.iter().map(|(key, _)| *key).collect(),
        ..Changes::default()
    }
}

/// Returns the number of tables, and the number of service ports that do without.
fn tables(publishers: &Publishers) -> (u64, usize) {
    let MaglevUse {
        tables,
        without_room,
        ..
    } = publishers.maglev_use();
    (tables, without_room.len())
}

/// Packets find just these, by weight or not.
#[track_caller]
fn assert_live(publishers: &Publishers, wanted: &[(Key, Frontend)]) {
    let live = publishers.live().unwrap();
    assert_eq!(live.len(), wanted.len());
    for (key, frontend) in wanted {
        let found = live.iter().find(|one| one.key.address == key.address);
        let found = found.unwrap_or_else(|| panic!("{key:?} is not there"));
        assert!(found.is(frontend), "{key:?}: {found:?}");
    }
}

#[test]
fn a_table_gives_way_to_a_set_that_finds_no_slots_and_comes_back() {
    for address in [v4 as Address, v6] {
        let mut publishers = small();
        publishers.publish(&adding([web(address)])).unwrap();
        let wide = wide(address, 15);
        publishers
            .publish(&adding(wide[..14].iter().cloned()))
            .unwrap();
        assert_eq!(tables(&publishers), (1, 0));
        publishers
            .publish(&adding([wide[14].clone()]))
            .unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(tables(&publishers), (0, 1));
        let all: Vec<_> = [web(address)].into_iter().chain(wide.clone()).collect();
        assert_live(&publishers, &all);
        publishers.reclaim().unwrap();
        assert_eq!(tables(&publishers), (0, 1), "there is no room for it");

        publishers.publish(&removing(&wide[1..])).unwrap();
        publishers.reclaim().unwrap();
        assert_eq!(tables(&publishers), (1, 0), "there is room for it");
        let left: Vec<_> = [web(address)]
            .into_iter()
            .chain(wide[..1].iter().cloned())
            .collect();
        assert_live(&publishers, &left);
        publishers.publish(&removing(&left)).unwrap();
        publishers.reclaim().unwrap();
        publishers.reclaim().unwrap();
        assert_eq!(used(&publishers), [0; 6], "nothing leaks");
    }
}

#[test]
fn of_one_change_tables_take_what_is_left() {
    for address in [v4 as Address, v6] {
        // The one with a table comes first by its address.
        let all: Vec<_> = [web(address)]
            .into_iter()
            .chain(wide(address, 30))
            .collect();
        let mut publishers = small();
        publishers.publish(&adding(all.clone())).unwrap();
        assert_eq!(tables(&publishers), (0, 1));
        assert_live(&publishers, &all);
        let mut publishers = small();
        publishers.resync(&all).unwrap();
        assert_eq!(tables(&publishers), (0, 1));
        assert_eq!(publishers.resync(&all).unwrap(), 0, "it is as it can be");
        let fewer: Vec<_> = all[..4].to_vec();
        publishers.resync(&fewer).unwrap();
        assert_eq!(tables(&publishers), (1, 0));
    }
}

#[test]
fn the_next_agents_resync_takes_the_room_of_tables_too() {
    for address in [v4 as Address, v6] {
        let mut before = small();
        before.publish(&adding([web(address)])).unwrap();
        let all: Vec<_> = [web(address)]
            .into_iter()
            .chain(wide(address, 30))
            .collect();
        // One that runs, and one that begins on its tables.
        let next = DualPublisher::new(
            before.v4.tables().clone(),
            before.v6.tables().clone(),
            Families::default(),
        );
        for mut publishers in [before, next] {
            publishers
                .resync(&all)
                .unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(tables(&publishers), (0, 1));
            assert_live(&publishers, &all);
            assert_eq!(publishers.resync(&all).unwrap(), 0, "it is as it can be");
            publishers.publish(&removing(&all[1..])).unwrap();
            publishers.reclaim().unwrap();
            assert_eq!(tables(&publishers), (1, 0));
        }
    }
}

#[test]
fn what_would_not_fit_without_tables_either_takes_none() {
    let mut publishers = small();
    publishers.publish(&adding([web(v4)])).unwrap();
    let wide = wide(v4, 41);
    for result in [
        publishers.publish(&adding(wide.clone())),
        publishers.resync(&wide),
    ] {
        assert!(
            matches!(
                result,
                Err(TableError::Full {
                    table: Size::Slots,
                    ..
                })
            ),
            "{result:?}"
        );
    }
    publishers.reclaim().unwrap();
    assert_eq!(tables(&publishers), (1, 0));
    assert_live(&publishers, &[web(v4)]);
}

#[test]
fn the_namespace_whose_tables_hold_most_gives_way() {
    let capacity = Capacity {
        frontends: 64,
        slots: 1100,
        backends: 512,
    };
    let mut publishers = DualPublisher::new(
        MemoryTables::new(capacity),
        MemoryTables::new(capacity),
        Families::default(),
    );
    let of = |namespace: &str, last: u8| {
        let (key, mut frontend) = by_table(frontend(v4(last), &[v4(last + 50), v4(last + 51)]));
        let set = Arc::make_mut(&mut frontend.backends);
        set.service = Arc::new(ServiceId::new(namespace, &format!("web-{last}")));
        (key, frontend)
    };
    let with_tables = [of("quiet", 1), of("greedy", 4), of("greedy", 7)];
    publishers.publish(&adding(with_tables)).unwrap();
    assert_eq!(tables(&publishers), (3, 0));
    publishers.publish(&adding(wide(v4, 33))).unwrap();
    let MaglevUse {
        tables,
        without_room,
        ..
    } = publishers.maglev_use();
    assert_eq!(tables, 2, "no more than it takes");
    let mut without = without_room.iter();
    assert!(without.all(|port| port.starts_with("greedy/")));
}
