//! Two services that claim one frontend.

use std::{collections::BTreeMap, slice};

use shunt_model::{RendererEvent, Seniority, Service, Snapshot, decode};

use crate::world::{World, add, delete, nodes, resync, service, update};

const KEY: &str = "10.96.0.1:80/TCP";

/// A service on these external addresses, with a NodePort unless that is 0.
fn on(name: &str, addresses: &str, node_port: u16) -> String {
    service(
        name,
        &format!(
            r#""external_ips":[{addresses}],
               "ports":{{"http":{{"protocol":"TCP","port":80,"node_port":{node_port}}}}}"#
        ),
    )
}

fn claim(name: &str) -> String {
    on(name, r#""10.96.0.1""#, 0)
}

fn conflict(waiting: &str, key: &str, holder: &str) -> String {
    format!(
        "service default/{waiting}: frontend {key} belongs to service default/{holder}, whose claim is older"
    )
}

#[test]
fn the_older_claim_keeps_the_frontend_and_the_newer_takes_over_when_it_goes() {
    let mut world = World::synced(&[], &[]);
    world.tell(&add(&claim("b")));
    let outcome = world.tell(&add(&claim("a")));
    assert_eq!(outcome.counts(), (0, 0, 0));
    assert_eq!(outcome.conflicts, [conflict("a", KEY, "b")]);
    assert_eq!(world.conflicts(), [conflict("a", KEY, "b")]);
    assert_eq!(world.holder(KEY), "default/b");

    assert_eq!(
        world.tell(&delete("b")).counts(),
        (0, 1, 0),
        "never missing in between"
    );
    assert_eq!(world.holder(KEY), "default/a");
    assert_eq!(world.conflicts(), [""; 0]);
    assert_eq!(world.tell(&delete("a")).counts(), (0, 0, 1));
}

#[test]
fn an_event_names_its_own_conflicts_unless_the_holder_is_another_one() {
    let mut world = World::synced(&[], &[]);
    world.tell(&add(&claim("holder")));
    world.tell(&add(&claim("b")));
    assert_eq!(
        world.tell(&add(&claim("c"))).conflicts,
        [conflict("c", KEY, "holder")]
    );
    assert_eq!(
        world.tell(&delete("holder")).conflicts,
        [conflict("c", KEY, "b")]
    );
    assert_eq!(world.tell(&add(&claim("holder"))).conflicts.len(), 1);
    assert_eq!(world.conflicts().len(), 2);
}

#[test]
fn a_cluster_ip_is_its_services_whoever_claimed_it_before() {
    let owner = |name: &str| {
        service(
            name,
            r#""cluster_ips":["10.96.0.1"],
               "ports":{"http":{"protocol":"TCP","port":80,"node_port":0}}"#,
        )
    };
    let taken = format!(
        "service default/a: frontend {KEY} belongs to service default/c, whose ClusterIP it is"
    );
    let mut world = World::synced(&[], &[&claim("a")]);
    let outcome = world.tell(&add(&owner("c")));
    assert_eq!(outcome.counts(), (0, 1, 0), "changed in place");
    assert_eq!(outcome.conflicts, slice::from_ref(&taken));
    assert_eq!(world.holder(KEY), "default/c");

    world.tell(&resync(&[], &[&claim("a"), &claim("b"), &owner("c")]));
    assert_eq!(world.holder(KEY), "default/c");
    let of_b = taken.replace("default/a", "default/b");
    assert_eq!(world.conflicts(), [taken, of_b]);

    world.tell(&delete("c"));
    assert_eq!(world.holder(KEY), "default/a");
}

#[test]
fn the_rest_of_a_service_in_conflict_is_rendered() {
    let mut world = World::synced(&[], &[&claim("a")]);
    world.tell(&add(&on("b", r#""10.96.0.1","10.96.0.2""#, 0)));
    world.expect(&[
        "10.96.0.1:80/TCP ExternalIP Cluster default/a: none",
        "10.96.0.2:80/TCP ExternalIP Cluster default/b: none",
    ]);
}

#[test]
fn three_claims_are_served_in_the_order_of_their_age() {
    let mut world = World::synced(&[], &[&claim("c"), &claim("a"), &claim("b")]);
    assert_eq!(
        world.conflicts(),
        [conflict("a", KEY, "c"), conflict("b", KEY, "c")]
    );
    assert_eq!(world.tell(&delete("a")).counts(), (0, 0, 0));
    world.tell(&add(&claim("a")));
    world.tell(&delete("c"));
    assert_eq!(
        world.holder(KEY),
        "default/b",
        "the claim of a was taken back in between"
    );
}

#[test]
fn an_update_keeps_the_age_of_the_claims_that_it_keeps() {
    let mut world = World::synced(&[], &[&claim("a"), &claim("b")]);
    world.tell(&update(&on("a", r#""10.96.0.9","10.96.0.1""#, 0)));
    assert_eq!(world.holder(KEY), "default/a");

    assert_eq!(
        world.tell(&update(&on("a", r#""10.96.0.9""#, 0))).counts(),
        (0, 1, 0)
    );
    assert_eq!(world.holder(KEY), "default/b", "a let go");
    assert_eq!(
        world
            .tell(&update(&on("a", r#""10.96.0.9","10.96.0.1""#, 0)))
            .counts(),
        (0, 0, 0)
    );
    assert_eq!(
        world.holder(KEY),
        "default/b",
        "the claim of a is the newer one now"
    );
}

#[test]
fn a_resync_keeps_the_age_of_what_stays_and_orders_what_is_new_as_listed() {
    let mut world = World::synced(&[], &[&claim("b")]);
    assert_eq!(
        world
            .tell(&resync(&[], &[&claim("d"), &claim("c"), &claim("b")]))
            .counts(),
        (0, 0, 0)
    );
    assert_eq!(world.holder(KEY), "default/b");
    world.tell(&resync(&[], &[&claim("c"), &claim("d")]));
    assert_eq!(
        world.holder(KEY),
        "default/d",
        "d was listed before c when both were new"
    );
}

#[test]
fn a_frontend_that_moves_to_another_service_within_one_event_is_changed_in_place() {
    let mut world = World::synced(&[], &[&claim("a")]);
    assert_eq!(world.tell(&resync(&[], &[&claim("b")])).counts(), (0, 1, 0));
    assert_eq!(
        world
            .tell(&nodes(&[], &[&on("b", r#""10.96.0.2""#, 0), &claim("c")]))
            .counts(),
        (1, 1, 0)
    );
    assert_eq!(world.holder(KEY), "default/c");
}

#[test]
fn a_node_port_is_claimed_on_all_nodes_at_once_present_and_future() {
    let mut world = World::synced(&[], &[&on("old", "", 0), &on("a", "", 30080)]);
    world.tell(&update(&on("old", "", 30080)));
    for node_ips in [
        &["192.168.16.10"][..],
        &["192.168.16.20", "192.168.16.30"],
        &["192.168.16.10"],
    ] {
        world.tell(&nodes(node_ips, &[]));
        for address in node_ips {
            assert_eq!(world.holder(&format!("{address}:30080/TCP")), "default/a");
        }
    }
    world.tell(&delete("a"));
    assert_eq!(world.holder("192.168.16.10:30080/TCP"), "default/old");
}

#[test]
fn a_node_port_yields_to_an_older_address_that_becomes_a_node_s() {
    let external = service(
        "ext",
        r#""external_ips":["192.168.16.20"],"ports":{"http":{"protocol":"TCP","port":30080}}"#,
    );
    let mut world = World::synced(&["192.168.16.10"], &[&external, &on("np", "", 30080)]);
    assert_eq!(world.conflicts(), [""; 0]);
    world.tell(&nodes(&["192.168.16.10", "192.168.16.20"], &[]));
    let key = "192.168.16.20:30080/TCP";
    assert_eq!(world.holder(key), "default/ext");
    assert_eq!(world.conflicts(), [conflict("np", key, "ext")]);
    world.tell(&delete("ext"));
    assert_eq!(world.holder(key), "default/np");
}

#[test]
fn equal_ports_of_different_protocols_are_no_conflict() {
    let udp = service(
        "b",
        r#""cluster_ips":["10.96.0.1"],"ports":{"http":{"protocol":"UDP","port":80}}"#,
    );
    let world = World::synced(&[], &[&claim("a"), &udp]);
    assert_eq!(world.conflicts(), [""; 0]);
    world.expect(&[
        "10.96.0.1:80/TCP ExternalIP Cluster default/a: none",
        "10.96.0.1:80/UDP ClusterIP Cluster default/b: none",
    ]);
}

/// The claim of a service that is so old.
fn of_age(name: &str, created: i64) -> RendererEvent {
    let Ok(RendererEvent::AddService(service)) = decode(&add(&claim(name))) else {
        unreachable!("it is added");
    };
    RendererEvent::UpdateService(Service {
        seniority: Some(Seniority::new(created, name)),
        ..service
    })
}

#[test]
fn what_is_known_is_a_resync_that_changes_nothing_with_the_oldest_services_first() {
    let mut world = World::synced(&["192.168.16.10", "fe80::2"], &[]);
    world.tell(&add(&claim("unknown")));
    for (name, created) in [("young", 3), ("old", 1), ("middle", 2)] {
        world.apply(of_age(name, created)).unwrap();
    }
    world.tell(&add(&claim("last")));
    let same = world.renderer.plan(of_age("middle", 2)).unwrap();
    let snapshot = world.renderer.snapshot_after(&same);
    let names: Vec<String> = snapshot
        .services
        .iter()
        .map(|service| service.id.name.to_string())
        .collect();
    assert_eq!(names, ["old", "middle", "young", "unknown", "last"]);
    let plan = world
        .renderer
        .plan(RendererEvent::Resync(snapshot))
        .unwrap();
    assert!(plan.changes.is_empty(), "{:?}", plan.changes);
    let claims: BTreeMap<_, _> = plan.claims().collect();
    assert_eq!(claims.len(), names.len(), "also of those that wait");
    let known: BTreeMap<_, _> = world.renderer.claims().collect();
    assert_eq!(claims, known);
    // One that is not known yet is among them.
    let new = world.renderer.plan(of_age("new", 0)).unwrap();
    let snapshot = world.renderer.snapshot_after(&new);
    assert_eq!(&*snapshot.services[0].id.name, "new");
    assert_eq!(snapshot.services.len(), names.len() + 1);
    // So are the addresses of nodes, once they change.
    let is_at = |snapshot: &Snapshot, ip: &str| snapshot.node_ips.contains(&ip.parse().unwrap());
    assert!(is_at(&snapshot, "192.168.16.10") && is_at(&snapshot, "fe80::2"));
    let elsewhere = decode(&nodes(&["192.168.16.11"], &[])).unwrap();
    let elsewhere = world.renderer.plan(elsewhere).unwrap();
    let snapshot = world.renderer.snapshot_after(&elsewhere);
    assert!(is_at(&snapshot, "192.168.16.11") && snapshot.node_ips.len() == 1);
    assert_eq!(snapshot.services.len(), names.len());
}

#[test]
fn an_older_service_takes_a_frontend_over_however_late_it_comes() {
    let mut world = World::synced(&[], &[]);
    // The age of this one is not known.
    world.tell(&add(&claim("unknown")));
    for (name, created, holder) in [
        ("young", 3, "young"),
        ("middle", 2, "middle"),
        ("late", 4, "middle"),
        ("old", 1, "old"),
        ("a-twin", 1, "a-twin"),
        // The same again, and then another one of this name.
        ("a-twin", 1, "a-twin"),
        ("a-twin", 9, "old"),
    ] {
        world.apply(of_age(name, created)).unwrap();
        assert_eq!(world.holder(KEY), format!("default/{holder}"), "{name}");
    }
    for (gone, holder) in [
        ("old", "middle"),
        ("middle", "young"),
        ("young", "late"),
        ("late", "a-twin"),
        ("a-twin", "unknown"),
    ] {
        assert_eq!(
            world.tell(&delete(gone)).counts(),
            (0, 1, 0),
            "never missing in between"
        );
        assert_eq!(world.holder(KEY), format!("default/{holder}"), "{gone}");
    }
}
