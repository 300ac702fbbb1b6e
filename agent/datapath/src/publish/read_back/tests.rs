//! Tables read back, right and wrong.

use std::net::Ipv4Addr;

use shunt_common::{Slot, TCP, V4};

use super::*;
use shunt_model::{
    BackendSet, Clients, Forwarding, FrontendKind, Masquerade, PortPart, Refusal, ServiceId,
    TrafficPolicy,
};

use crate::{
    maps::{memory_tables::MemoryTables, tables::Capacity},
    publish::publisher::Publisher,
};

fn frontend() -> Frontend {
    let backend = |last: u8, weight| Backend {
        ip: Ipv4Addr::new(10, 1, 1, last).into(),
        port: 8080,
        weight,
        local: last == 3,
        scopes: Scopes {
            cluster: true,
            local: last == 3,
        },
    };
    Frontend {
        kind: FrontendKind::NodePort,
        policy: TrafficPolicy::Cluster,
        clients: Clients::ThisNode,
        forwarding: Forwarding::Snat,
        masquerade: Masquerade::Off,
        refusal: Refusal::Drop,
        this_node: None,
        with_draining: None,
        sources: Arc::default(),
        backends: Arc::new(BackendSet {
            affinity_timeout: 0,
            maglev: None,
            part: PortPart::Main,
            split: None,
            service: Arc::new(ServiceId::new("default", "web")),
            port: "http".into(),
            backends: vec![backend(3, 1), backend(4, 3)],
        }),
    }
}

/// Tables with that one frontend at 192.168.16.10:30080.
fn published() -> MemoryTables<V4> {
    let mut publisher = Publisher::new(MemoryTables::new(Capacity {
        frontends: 4,
        slots: 8,
        backends: 8,
    }));
    let frontend = frontend();
    let address = u32::from_ne_bytes([192, 168, 16, 10]);
    let key = TableKey::new(address, 30080u16.to_be(), TCP);
    publisher.publish(&[(key, &frontend)], &[]).unwrap();
    publisher.tables().clone()
}

#[test]
fn what_was_published_is_read_back() {
    let found = read(&published()).unwrap();
    let [found] = found.as_slice() else {
        panic!("one frontend, not {found:?}");
    };
    assert_eq!(found.key.to_string(), "192.168.16.10:30080/TCP");
    assert!(found.is_for_this_node());
    assert!(found.is(&frontend()));
    let mut other = frontend();
    other.clients = Clients::Everyone;
    assert!(!found.is(&other));
    let mut other = frontend();
    other.kind = FrontendKind::ExternalIp;
    assert!(!found.is(&other), "a NodePort is marked");
}

#[test]
fn whatever_others_write_is_read_and_is_not_what_was_wanted() {
    type Damage = fn(&mut MemoryTables<V4>);
    let damages: [(&str, Damage); 5] = [
        ("another weight", |tables| {
            tables
                .backends
                .iter_mut()
                .for_each(|entry| entry.weight = 7);
        }),
        ("another share", |tables| {
            tables.slots.iter_mut().for_each(|slot| slot.threshold ^= 1);
        }),
        ("a backend that does not exist", |tables| {
            tables.slots.fill(Slot {
                backend: u32::MAX,
                ..Slot::default()
            });
        }),
        ("a slice outside the table", |tables| {
            tables.cells.fill(Cell::from_word(u64::MAX));
        }),
        ("an index outside the table", |tables| {
            tables
                .frontends
                .values_mut()
                .for_each(|index| *index = u32::MAX);
        }),
    ];
    for (what, damage) in damages {
        let mut tables = published();
        damage(&mut tables);
        let found = read(&tables).unwrap();
        assert_eq!(found.len(), 1, "{what}");
        assert!(!found[0].is(&frontend()), "{what}");
    }
}

#[test]
fn an_entry_of_no_known_protocol_is_listed() {
    let mut tables = published();
    tables
        .frontends
        .insert(TableKey::new(u32::from_ne_bytes([9; 4]), 0x0909, 9), 0);
    let found = read(&tables).unwrap();
    assert_eq!(found[0].key.to_string(), "9.9.9.9:2313/9");
    assert_eq!(found[0].key.frontend(), None);
    assert_eq!(found.len(), 2);
}

#[test]
fn one_frontend_is_read_without_a_walk_as_all_of_them_are() {
    let mut publisher = Publisher::new(MemoryTables::new(Capacity {
        frontends: 1024,
        slots: 4096,
        backends: 4096,
    }));
    let wanted: Vec<_> = (0..1000)
        .map(|port| {
            let mut frontend = frontend();
            Arc::make_mut(&mut frontend.backends).port = format!("p{port}").into();
            let address = u32::from_ne_bytes([192, 168, 16, 10]);
            (
                TableKey::<V4>::new(address, (port + 1_u16).to_be(), TCP),
                frontend,
            )
        })
        .collect();
    let published: Vec<_> = wanted
        .iter()
        .map(|(key, frontend)| (*key, frontend))
        .collect();
    publisher.publish(&published, &[]).unwrap();
    let tables = publisher.tables();
    let all = read(tables).unwrap();
    let before = tables.reads.get();
    let none = Sources::<V4>::new();
    let (key, frontend) = &wanted[500];
    let found = Reader::new(tables, &none).frontend(*key).unwrap().unwrap();
    // Three keys, a cell, and two slots with their backends.
    assert_eq!(tables.reads.get() - before, 8);
    assert!(found.is(frontend));
    assert_eq!(format!("{found:?}"), format!("{:?}", all[500]));
    let absent = TableKey::<V4>::new(7, 7, TCP);
    assert!(
        Reader::new(tables, &none)
            .frontend(absent)
            .unwrap()
            .is_none()
    );
}
