//! Both families, all or nothing.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use shunt_common::Family;

use super::*;
use shunt_model::{
    Backend, BackendSet, Clients, Forwarding, FrontendKey as Key, FrontendKind, Masquerade,
    PortPart, Protocol, Refusal, Scopes, ServiceId, TrafficPolicy, maglev::EntriesPerBackend,
};

use crate::maps::{memory_tables::MemoryTables, tables::Capacity};

mod giving_way;

type Publishers = DualPublisher<MemoryTables<V4>, MemoryTables<V6>>;

/// Room for this many frontends of each family, and twice as many backends and slots.
fn publishers(v4: u32, v6: u32) -> Publishers {
    let capacity = |frontends| Capacity {
        frontends,
        slots: 2 * frontends,
        backends: 2 * frontends,
    };
    DualPublisher::new(
        MemoryTables::new(capacity(v4)),
        MemoryTables::new(capacity(v6)),
        Families::default(),
    )
}

fn v4(last: u8) -> IpAddr {
    IpAddr::from([10, 1, 1, last])
}

fn v6(last: u8) -> IpAddr {
    IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, u16::from(last)])
}

fn key(address: IpAddr) -> Key {
    Key {
        address,
        port: 80,
        protocol: Protocol::Tcp,
    }
}

/// The frontend at that address, with these backends.
fn frontend(address: IpAddr, backends: &[IpAddr]) -> (Key, Frontend) {
    let backend = |ip: &IpAddr| Backend {
        ip: *ip,
        port: 8080,
        weight: 1,
        local: true,
        scopes: Scopes {
            cluster: true,
            local: true,
        },
    };
    let frontend = Frontend {
        kind: FrontendKind::ClusterIp,
        policy: TrafficPolicy::Cluster,
        clients: Clients::Everyone,
        forwarding: Forwarding::Snat,
        masquerade: Masquerade::Off,
        refusal: Refusal::Reject,
        this_node: None,
        with_draining: None,
        sources: Arc::default(),
        backends: Arc::new(BackendSet {
            service: Arc::new(ServiceId::new("default", address.to_string().as_str())),
            port: "http".into(),
            affinity_timeout: 0,
            maglev: None,
            part: PortPart::Main,
            split: None,
            backends: backends.iter().map(backend).collect(),
        }),
    };
    (key(address), frontend)
}

fn adding(added: impl IntoIterator<Item = (Key, Frontend)>) -> Changes {
    Changes {
        added: added.into_iter().collect(),
        ..Changes::default()
    }
}

/// Returns the packets' view: each frontend with its backends.
fn view(publishers: &Publishers) -> Vec<(IpAddr, Vec<IpAddr>)> {
    let live = publishers.live().unwrap();
    live.iter()
        .map(|live| {
            let backends = live.backends.iter().map(|backend| backend.ip);
            (live.key.address, backends.collect())
        })
        .collect()
}

/// Returns the numbers of used entries, which neither the free space of a table nor its contents may have lost.
fn used(publishers: &Publishers) -> Vec<u32> {
    let tables = publishers.table_use();
    tables.into_iter().map(|table| table.used).collect()
}

/// A foreign entry in the frontends table, of which the publisher does not know.
fn intrude<F: Family>(tables: &mut MemoryTables<F>, address: F::Address) {
    let key = FrontendKey::new(address, 9, 9);
    tables.frontends.insert(key, u32::MAX);
}

#[test]
fn each_family_gets_its_frontends() {
    let mut publishers = publishers(4, 4);
    let web = [frontend(v4(1), &[v4(3), v4(4)]), frontend(v6(1), &[v6(3)])];
    publishers.publish(&adding(web)).unwrap();
    let both = vec![(v4(1), vec![v4(3), v4(4)]), (v6(1), vec![v6(3)])];
    assert_eq!(view(&publishers), both);
    let gone = Changes {
        removed: vec![key(v4(1)), key(v6(1))],
        ..Changes::default()
    };
    publishers.publish(&gone).unwrap();
    assert!(publishers.is_empty().unwrap());
    publishers.reclaim().unwrap();
    assert_eq!(used(&publishers), [0; 6]);
}

#[test]
fn a_change_that_one_family_has_no_room_for_is_made_in_neither() {
    for (name, room, added) in [
        (
            "frontends",
            publishers(4, 1),
            vec![frontend(v4(2), &[]), frontend(v6(2), &[])],
        ),
        (
            "backends",
            publishers(4, 1),
            vec![
                frontend(v4(2), &[v4(3)]),
                frontend(v6(1), &[v6(3), v6(4), v6(5)]),
            ],
        ),
        (
            "frontends",
            publishers(1, 4),
            vec![frontend(v4(2), &[]), frontend(v6(2), &[])],
        ),
    ] {
        let mut publishers = room;
        let web = [frontend(v4(1), &[v4(3)]), frontend(v6(1), &[v6(3)])];
        publishers.publish(&adding(web.clone())).unwrap();
        let (seen, room) = (view(&publishers), used(&publishers));
        let error = publishers.publish(&adding(added.clone())).unwrap_err();
        assert!(
            matches!(error, TableError::Full { table, .. } if table.name() == name),
            "{error}"
        );
        assert_eq!(view(&publishers), seen);
        publishers.reclaim().unwrap();
        assert_eq!(used(&publishers), room, "nothing leaks");

        let snapshot: BTreeMap<_, _> = web.clone().into_iter().chain(added).collect();
        let snapshot: Vec<_> = snapshot.into_iter().collect();
        publishers.resync(&snapshot).unwrap_err();
        assert_eq!(view(&publishers), seen, "after a Resync");
        // What the failure wrote into free space, this clears.
        publishers.resync(&web).unwrap();
        assert_eq!(publishers.resync(&web).unwrap(), 0, "all is as it was");
        assert_eq!(used(&publishers), room);
    }
}

#[test]
fn frontends_that_the_kernel_refuses_in_one_family_are_taken_out_of_the_other() {
    let mut publishers = publishers(4, 2);
    let web = [frontend(v4(1), &[v4(3)]), frontend(v6(1), &[v6(3)])];
    publishers.publish(&adding(web)).unwrap();
    intrude(publishers.v6.tables_mut(), [7; 4]);
    let (seen, room) = (view(&publishers), used(&publishers));

    let change = Changes {
        added: vec![frontend(v4(2), &[v4(5)]), frontend(v6(2), &[v6(5)])],
        changed: vec![frontend(v4(1), &[v4(4)])],
        removed: Vec::new(),
    };
    let error = publishers.publish(&change).unwrap_err();
    assert!(matches!(error, TableError::Kernel { .. }), "{error}");
    assert_eq!(view(&publishers), seen);
    publishers.reclaim().unwrap();
    assert_eq!(used(&publishers), room, "nothing leaks");

    // A Resync inserts before it removes what is foreign, and goes back in the same way.
    let snapshot = [
        frontend(v4(1), &[v4(4)]),
        frontend(v4(2), &[v4(5)]),
        frontend(v6(1), &[v6(3)]),
        frontend(v6(2), &[v6(5)]),
    ];
    publishers.resync(&snapshot).unwrap_err();
    assert_eq!(view(&publishers), seen);
    assert_eq!(used(&publishers), room);
    publishers
        .v6
        .tables_mut()
        .frontends
        .retain(|key, _| key.protocol != 9);
    publishers.resync(&snapshot).unwrap();
    assert_eq!(view(&publishers).len(), 4);
    assert_eq!(publishers.resync(&snapshot).unwrap(), 0);
}

#[test]
fn one_grace_period_serves_both_families() {
    let mut publishers = publishers(4, 4);
    let web = |last| [frontend(v4(1), &[v4(last)]), frontend(v6(1), &[v6(last)])];
    publishers.publish(&adding(web(3))).unwrap();
    let changed = Changes {
        changed: web(4).to_vec(),
        ..Changes::default()
    };
    publishers.publish(&changed).unwrap();
    let waits =
        |publishers: &Publishers| publishers.v4.tables().waits + publishers.v6.tables().waits;
    assert_eq!(waits(&publishers), 0, "no event waits for readers");
    assert!(publishers.has_retired());
    publishers.reclaim().unwrap();
    publishers.reclaim().unwrap();
    assert_eq!(waits(&publishers), 1);
    assert!(!publishers.has_retired());
}

#[test]
fn nothing_is_freed_that_a_packet_may_still_see() {
    let mut publishers = publishers(4, 4);
    let web = |last| [frontend(v4(1), &[v4(last)]), frontend(v6(1), &[v6(last)])];
    publishers.publish(&adding(web(3))).unwrap();
    let changed = Changes {
        changed: web(4).to_vec(),
        ..Changes::default()
    };
    publishers.publish(&changed).unwrap();
    let retired = |publishers: &Publishers| -> Vec<u32> {
        let tables = publishers.table_use();
        tables.into_iter().map(|table| table.retired).collect()
    };
    let (before, writes) = (retired(&publishers), publishers.writes());
    assert!(before.iter().any(|retired| *retired > 0), "{before:?}");
    // A grace period serves both families.
    publishers.v4.tables_mut().refuses_to_wait = true;
    publishers.v6.tables_mut().refuses_to_wait = true;
    publishers.reclaim().unwrap_err();
    let snapshot: Vec<_> = web(4).into();
    publishers.resync(&snapshot).unwrap_err();
    assert_eq!(retired(&publishers), before);
    assert_eq!(publishers.writes(), writes, "what packets see is as it was");
    publishers.v4.tables_mut().refuses_to_wait = false;
    publishers.v6.tables_mut().refuses_to_wait = false;
    publishers.reclaim().unwrap();
    assert!(retired(&publishers).iter().all(|retired| *retired == 0));
}

#[test]
fn an_event_waits_for_readers_only_if_it_brings_source_ranges() {
    let mut publishers = publishers(4, 4);
    let restricted = |last| {
        let (key, mut web) = frontend(v6(1), &[v6(last)]);
        web.sources = ["2001:db8::/32".parse().unwrap()].into();
        (key, web)
    };
    let change = |changed| Changes {
        changed: vec![changed],
        ..Changes::default()
    };
    publishers.publish(&adding([restricted(3)])).unwrap();
    let open = frontend(v6(1), &[v6(4)]);
    publishers.publish(&change(open)).unwrap();
    let other = frontend(v6(2), &[v6(4)]);
    publishers.publish(&adding([other])).unwrap();
    assert_eq!(publishers.v4.tables().waits, 0);
    publishers.publish(&change(restricted(5))).unwrap();
    assert_eq!(publishers.v4.tables().waits, 1);
    let sources = &publishers.v6.tables().source_ranges;
    assert_eq!(
        sources.len(),
        1,
        "the old list went before the new one came"
    );
}

#[test]
fn a_family_that_is_off_gets_nothing() {
    let mut publishers = publishers(4, 4);
    publishers.families.ipv6 = false;
    let web = [frontend(v4(1), &[v4(3)]), frontend(v6(1), &[v6(3)])];
    publishers.publish(&adding(web.clone())).unwrap();
    assert_eq!(view(&publishers), [(v4(1), vec![v4(3)])]);
    assert_eq!(publishers.resync(&web).unwrap(), 0);
}

/// The frontend, selecting by a table of 4,093 entries.
fn by_table((key, mut frontend): (Key, Frontend)) -> (Key, Frontend) {
    let size = EntriesPerBackend::default().table_size(frontend.backends.backends.len());
    Arc::make_mut(&mut frontend.backends).maglev = Some(size);
    (key, frontend)
}

/// The slots of such a table, with its seal.
const TABLE: usize = 257;

/// Returns whether the table of this recipe is among the slots of IPv4.
fn has(publishers: &Publishers, recipe: &Recipe) -> bool {
    let slots = recipe.fill().unwrap();
    let tables = &publishers.v4.tables().slots;
    tables.windows(TABLE).any(|found| *found == slots)
}

#[test]
fn tables_that_are_ready_are_not_made_and_none_is_left_for_the_next_change() {
    let mut publishers = publishers(400, 400);
    let two = |address, [one, other]: [IpAddr; 2]| by_table(frontend(address, &[one, other]));
    let (web, api) = (two(v4(1), [v4(3), v4(4)]), two(v6(1), [v6(3), v6(4)]));
    let alone = by_table(frontend(v4(9), &[v4(3)]));
    let change = adding([web.clone(), api.clone(), two(v4(2), [v4(3), v4(4)]), alone]);
    let lacking = publishers.lacking_tables(&change);
    assert_eq!(
        lacking.len(),
        2,
        "frontends with the same backends share one"
    );
    assert!(lacking.iter().all(|recipe| recipe.entries() == 4093));

    // Another table in its place shows that it is taken.
    let other = Recipe::of(&two(v4(1), [v4(5), v4(6)]).1.backends).unwrap();
    let of_web = Recipe::of(&web.1.backends).unwrap();
    assert!(lacking.contains(&of_web));
    let ready: ReadyTables = [(of_web.clone(), other.make().unwrap())]
        .into_iter()
        .collect();
    publishers.publish_with(&change, &ready).unwrap();
    assert!(has(&publishers, &other) && !has(&publishers, &of_web));
    assert!(
        publishers.lacking_tables(&change).is_empty(),
        "they are there"
    );

    publishers
        .publish(&Changes {
            removed: vec![key(v4(1)), key(v4(2))],
            ..Changes::default()
        })
        .unwrap();
    publishers.reclaim().unwrap();
    assert_eq!(publishers.lacking_tables(&change).len(), 1);
    publishers.publish(&adding([web])).unwrap();
    assert!(has(&publishers, &of_web), "made for this change");
}

#[test]
fn a_change_that_fails_leaves_no_table_behind() {
    let mut publishers = publishers(400, 400);
    let web = by_table(frontend(v4(1), &[v4(3), v4(4)]));
    let recipe = Recipe::of(&web.1.backends).unwrap();
    let other = Recipe::of(&by_table(frontend(v4(1), &[v4(5), v4(6)])).1.backends).unwrap();
    let ready: ReadyTables = [(recipe.clone(), other.make().unwrap())]
        .into_iter()
        .collect();
    let room = used(&publishers);
    let many = (0..401_u32).map(|number| {
        let address = IpAddr::from([0xfd00, 1, 0, 0, 0, 0, 0, number as u16]);
        frontend(address, &[])
    });
    let change = adding([web.clone()].into_iter().chain(many));
    publishers.publish_with(&change, &ready).unwrap_err();
    publishers.reclaim().unwrap();
    assert_eq!(
        (used(&publishers), publishers.maglev_use().tables),
        (room, 0)
    );
    assert!(publishers.lacking_tables(&change).contains(&recipe));
    publishers.publish(&adding([web])).unwrap();
    assert!(has(&publishers, &recipe), "not the one that was ready");
}

#[test]
fn what_has_no_room_is_not_lacking_unless_room_is_about_to_be_free() {
    // For one table, and a quarter besides.
    let mut publishers = publishers(180, 4);
    let [web, api] = [3, 5].map(|last| by_table(frontend(v4(last), &[v4(last), v4(last + 1)])));
    let (first, second) = (adding([web.clone()]), adding([api]));
    publishers.publish(&first).unwrap();
    assert!(publishers.lacking_tables(&second).is_empty());
    let gone = Changes {
        removed: vec![web.0],
        ..Changes::default()
    };
    publishers.publish(&gone).unwrap();
    assert_eq!(publishers.lacking_tables(&second).len(), 1);
    publishers.publish(&second).unwrap();
    assert_eq!(publishers.maglev_use().tables, 1);
}
