//! A dump means the same with other addresses.

use std::net::SocketAddr;

use shunt_common::{FrontendKey, V4, connections::Seeds, registry};

use super::*;
use crate::{
    dump::{
        content::Frontend,
        table::{Shape, Table},
    },
    trace::connections::Shown,
};

fn node() -> Node {
    Node {
        ticks: 64_000,
        ..Node::of_tests()
    }
}

fn table(shape: Shape, key_size: usize, value_size: usize) -> Table {
    Table {
        shape,
        key_size,
        value_size,
        entries: std::collections::BTreeMap::new(),
    }
}

fn key(address: &str) -> Vec<u8> {
    let address: SocketAddr = address.parse().unwrap();
    let ip = <V4 as Shown>::address(address.ip()).unwrap();
    bytemuck::bytes_of(&FrontendKey::<V4>::new(ip, address.port().to_be(), 6)).to_vec()
}

#[test]
fn a_frontend_is_found_at_what_stands_for_its_address() {
    let mut dump = Dump::new(node());
    let mut frontends = table(Shape::Hash, 8, 4);
    frontends
        .entries
        .insert(key("10.96.0.10:80"), vec![1, 0, 0, 0]);
    dump.tables.insert("FRONTENDS_V4".to_owned(), frontends);
    dump.tables
        .insert("ADDRESSES_V4".to_owned(), table(Shape::Array(4096), 4, 8));
    dump.frontends.push(Frontend {
        address: "10.96.0.10".parse().unwrap(),
        port: 80,
        protocol: 6,
        kind: "ClusterIP".to_owned(),
        service: "default/web".to_owned(),
        service_port: "http".to_owned(),
        policy: "Cluster".to_owned(),
        forwarding: "snat".to_owned(),
        selection: "weighted".to_owned(),
        split: Vec::new(),
    });
    let new = anonymous(&dump, &Key::of([3; 32])).unwrap();
    let named = &new.frontends[0];
    assert_ne!(named.address, dump.frontends[0].address);
    assert!(!named.service.contains("web") && named.kind == "ClusterIP");
    let key = key(&format!("{}:80", named.address));
    assert!(new.tables["FRONTENDS_V4"].entries.contains_key(&key));
    assert_eq!(
        new.tables["ADDRESSES_V4"].entries.len(),
        1,
        "the filter knows it"
    );
    assert!(new.node.anonymous);
}

#[test]
fn a_table_that_is_not_known_is_not_given_away() {
    let mut dump = Dump::new(node());
    dump.tables
        .insert("SECRETS".to_owned(), table(Shape::Hash, 4, 4));
    let refused = anonymous(&dump, &Key::of([3; 32])).unwrap_err();
    assert!(refused.to_string().contains("SECRETS"), "{refused}");
    // Neither is one whose entries are others than this version's.
    let mut dump = Dump::new(node());
    let mut backends = table(Shape::Array(7), 4, 15);
    backends.entries.insert(vec![0; 4], vec![1; 15]);
    dump.tables.insert("BACKENDS_V4".to_owned(), backends);
    anonymous(&dump, &Key::of([3; 32])).unwrap_err();
}

#[test]
fn the_seeds_of_the_node_are_not_given_away() {
    let live = Seeds([0x5eed_0001; 10]);
    let live = bytemuck::bytes_of(&live);
    let mut dump = Dump::new(node());
    let constant = registry::CONNTRACK_SEEDS.name.to_owned();
    dump.constants.insert(constant.clone(), live.to_vec());
    let mut seeds = table(Shape::Array(1), 4, live.len());
    seeds.entries.insert(vec![0; 4], live.to_vec());
    dump.tables.insert(registry::SEEDS.name.to_owned(), seeds);

    let new = anonymous(&dump, &Key::of([3; 32])).unwrap();
    let drawn = &new.constants[&constant];
    assert_eq!(
        new.tables[registry::SEEDS.name].entries[&vec![0; 4]],
        *drawn
    );
    assert_eq!(drawn.len(), live.len());
    for (word, live) in drawn.chunks(4).zip(live.chunks(4)) {
        assert_ne!(word, live);
    }
    let other = anonymous(&dump, &Key::of([4; 32])).unwrap();
    assert_ne!(other.constants[&constant], *drawn, "they depend on the key");
}
