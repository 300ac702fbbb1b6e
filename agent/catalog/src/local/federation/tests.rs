//! The rules by which records are copied, and ways are chosen.

use serde_json::{Value, json};

use super::{
    locator::{Replication, ways_to_primary},
    record::{Gateway, Record},
    states::{Remote, States},
};

fn gateway(id: &str, lan: &str, wan: &str, status: &str, federates: bool) -> Gateway {
    let meta: Value = if federates {
        json!({ "consul-wan-federation": "1" })
    } else {
        json!({})
    };
    serde_json::from_value(json!({
        "Node": { "Node": "n", "Address": "10.0.0.9", "Datacenter": "dc" },
        "Service": {
            "Kind": "mesh-gateway", "ID": id, "Service": "mesh-gateway", "Address": lan, "Port": 443,
            "Meta": meta, "TaggedAddresses": { "wan": { "Address": wan, "Port": 8443 } },
        },
        "Checks": [{ "Node": "n", "CheckID": "c", "Status": status, "ServiceID": id }],
    }))
    .unwrap()
}

fn plain(id: &str) -> Vec<Gateway> {
    vec![gateway(id, "10.0.0.1", "192.0.2.1", "passing", true)]
}

fn put(states: &mut States, datacenter: &str, gateways: Vec<Gateway>) -> bool {
    states.put(datacenter, gateways, "2026-01-01T00:00:00Z".to_owned())
}

/// Returns the records that a primary with these states shows.
fn shown(states: &States) -> Remote {
    Remote {
        index: states.index,
        records: states.records.values().cloned().collect(),
    }
}

fn content(states: &States) -> Vec<(&str, &[Gateway])> {
    let records = states.records.values();
    records
        .map(|record| (record.datacenter.as_str(), record.mesh_gateways.as_slice()))
        .collect()
}

#[test]
fn a_first_change_is_newer_than_what_readers_of_nothing_see() {
    const OF_NOTHING: u64 = 1;
    let (mut primary, mut copy) = (States::default(), States::default());
    put(&mut primary, "dc1", plain("a"));
    copy.follow(shown(&primary));
    for states in [primary, copy] {
        assert!(states.index > OF_NOTHING);
        assert!(states.records["dc1"].modify_index > OF_NOTHING);
    }
}

#[test]
fn the_same_again_is_no_change() {
    let mut primary = States::default();
    assert!(put(&mut primary, "dc1", plain("a")));
    assert!(!put(&mut primary, "dc1", plain("a")));
    assert!(put(&mut primary, "dc1", plain("b")));
    let record = &primary.records["dc1"];
    assert_eq!(
        (record.create_index, record.modify_index, primary.index),
        (2, 3, 3)
    );
    assert!(
        put(&mut primary, "dc1", Vec::new()),
        "the record stays, with nobody in it"
    );
    assert_eq!(primary.gateways("dc1"), []);
}

#[test]
fn a_copy_follows_what_is_new_changed_and_gone() {
    let (mut primary, mut copy) = (States::default(), States::default());
    put(&mut primary, "dc1", plain("a"));
    put(&mut primary, "dc2", plain("b"));
    assert!(copy.follow(shown(&primary)));
    assert_eq!(content(&copy), content(&primary));
    assert_eq!(copy.records["dc2"].primary_modify_index, 3);
    assert_eq!(copy.index, 2, "one look is one change");
    assert!(!copy.follow(shown(&primary)), "nothing is new");
    assert_eq!(copy.index, 2);
    put(&mut primary, "dc2", plain("c"));
    assert!(copy.follow(shown(&primary)));
    assert_eq!((copy.index, copy.records["dc2"].modify_index), (3, 3));
    assert_eq!(copy.records["dc1"].modify_index, 2, "it is as it was");
    primary.records.remove("dc2");
    primary.index += 1;
    assert!(copy.follow(shown(&primary)));
    assert_eq!(content(&copy), content(&primary));
}

#[test]
fn an_index_that_went_back_is_another_primary() {
    let mut copy = States::default();
    let mut old = States::default();
    for id in ["a", "b", "c", "d"] {
        put(&mut old, "dc1", plain(id));
    }
    copy.follow(shown(&old));
    let mut new = States::default();
    put(&mut new, "dc1", plain("z"));
    assert!(copy.follow(shown(&new)), "its record 1 is newer than our 4");
    assert_eq!(content(&copy), content(&new));
}

#[test]
fn a_record_is_in_consuls_form() {
    let mut states = States::default();
    put(&mut states, "dc1", plain("a"));
    let shown = serde_json::to_value(&states.records["dc1"]).unwrap();
    for field in [
        "Datacenter",
        "MeshGateways",
        "UpdatedAt",
        "PrimaryModifyIndex",
        "CreateIndex",
        "ModifyIndex",
    ] {
        assert!(!shown[field].is_null(), "{field}: {shown}");
    }
    assert_eq!(shown["MeshGateways"][0]["Service"]["ID"], "a");
    assert_eq!(shown["MeshGateways"][0]["Checks"][0]["CheckID"], "c");
    let read: Record = serde_json::from_value(shown).unwrap();
    assert_eq!(read, states.records["dc1"]);
}

#[test]
fn the_own_gateways_lead_to_the_primary_while_that_works() {
    let mut states = States::default();
    let near = gateway("n", "10.2.0.1", "192.0.2.2", "warning", true);
    let dead = gateway("d", "10.2.0.2", "192.0.2.3", "critical", true);
    let other = gateway("o", "10.2.0.3", "192.0.2.4", "passing", false);
    put(&mut states, "dc2", vec![near, dead, other]);
    let far = gateway("f", "10.1.0.1", "192.0.2.1", "passing", true);
    put(&mut states, "dc1", vec![far]);
    let configured = ["primary:8502".to_owned()];
    let ways = |states: &States, replication| {
        ways_to_primary(states, "dc2", "dc1", &configured, replication)
    };
    let union = ["192.0.2.1:8443", "primary:8502"];
    let own = ["10.2.0.1:443"];
    assert_eq!(ways(&states, Replication::Never), union);
    let mut replication = Replication::worked();
    for expected in [&own[..], &own, &own, &union, &union] {
        assert_eq!(ways(&states, replication), expected, "{replication:?}");
        replication = replication.failed();
    }
    assert_eq!(ways(&states, Replication::worked()), own, "it works again");
    assert_eq!(ways(&states, Replication::Never.failed()), union);
    put(&mut states, "dc2", Vec::new());
    assert_eq!(
        ways(&states, Replication::worked()),
        union,
        "there are no own ones"
    );
    assert_eq!(
        ways(&States::default(), Replication::Never),
        configured,
        "nothing is known yet"
    );
}
