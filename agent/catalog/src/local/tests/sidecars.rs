//! `sidecar_service`, by Consul's result.

use serde_json::{Value, json};

use super::world::{World, deregister, register};
use crate::local::{
    definition::{check::Probe, service::Weights},
    state::register::Change,
};

fn web(sidecar: &Value) -> Value {
    json!({
        "Name": "web", "ID": "web1", "Port": 80, "Address": "10.0.0.1",
        "Tags": ["a", "b"], "Meta": { "k": "v" }, "EnableTagOverride": true,
        "Weights": { "Passing": 7, "Warning": 3 },
        "TaggedAddresses": { "wan": { "Address": "192.0.2.1", "Port": 1 } },
        "Connect": { "SidecarService": sidecar },
    })
}

fn registered(sidecar: &Value) -> World {
    let mut world = World::default();
    world.change(&register(web(sidecar)));
    world
}

#[test]
fn a_sidecar_has_what_its_parent_has_and_what_goes_without_saying() {
    let world = registered(&json!({}));
    let sidecar = world.service("web1-sidecar-proxy").unwrap();
    assert_eq!(sidecar.name, "web-sidecar-proxy");
    assert_eq!(sidecar.kind, "connect-proxy");
    assert_eq!(sidecar.tags, ["a", "b"]);
    assert_eq!(sidecar.meta["k"], "v");
    assert_eq!(sidecar.address, "10.0.0.1");
    assert_eq!(sidecar.port, 21000);
    // These are not inherited.
    assert_eq!(sidecar.weights, Weights::ONE);
    assert!(!sidecar.enable_tag_override);
    assert!(!sidecar.tagged_addresses.contains_key("wan"));
    let proxy = sidecar.proxy.as_ref().unwrap();
    assert_eq!(proxy.destination_service_name, "web");
    assert_eq!(proxy.destination_service_id, "web1");
    assert_eq!(proxy.local_service_address, "127.0.0.1");
    assert_eq!(proxy.local_service_port, 80);
    let listens = world.check("service:web1-sidecar-proxy:1");
    assert_eq!(listens.name, "Connect Sidecar Listening");
    assert!(matches!(&listens.probe, Probe::Tcp { address, .. } if address == "127.0.0.1:21000"));
    let alias = world.check("service:web1-sidecar-proxy:2");
    assert_eq!(alias.name, "Connect Sidecar Aliasing web1");
    assert_eq!(alias.probe, Probe::Alias("web1".to_owned()));
    assert!(
        world.service("web1").unwrap().proxy.is_none(),
        "the block is stored nowhere"
    );
}

#[test]
fn tags_and_meta_are_inherited_each_by_itself() {
    for (sidecar, tags, meta) in [
        (json!({}), &["a", "b"][..], "v"),
        (json!({ "Tags": [], "Meta": {} }), &["a", "b"], "v"),
        (json!({ "Tags": ["own"] }), &["own"], "v"),
        (json!({ "Meta": { "k": "own" } }), &["a", "b"], "own"),
        (
            json!({ "Tags": ["own"], "Meta": { "k": "own" } }),
            &["own"],
            "own",
        ),
    ] {
        let world = registered(&sidecar);
        let found = world.service("web1-sidecar-proxy").unwrap();
        assert_eq!(found.tags, tags, "{sidecar}");
        assert_eq!(found.meta["k"], meta, "{sidecar}");
    }
}

#[test]
fn what_a_sidecar_says_itself_holds() {
    let world = registered(&json!({
        "Name": "own", "Kind": "other", "Address": "10.0.0.2", "Port": 5, "Check": { "TTL": "1s" },
        "Proxy": {
            "DestinationServiceName": "n", "DestinationServiceID": "i",
            "LocalServiceAddress": "10.0.0.3", "LocalServicePort": 6,
        },
    }));
    let sidecar = world.service("web1-sidecar-proxy").unwrap();
    assert_eq!(
        (
            &*sidecar.name,
            &*sidecar.kind,
            &*sidecar.address,
            sidecar.port
        ),
        ("own", "other", "10.0.0.2", 5)
    );
    let proxy = sidecar.proxy.as_ref().unwrap();
    assert_eq!(proxy.destination_service_name, "n");
    assert_eq!(proxy.destination_service_id, "i");
    assert_eq!(proxy.local_service_address, "10.0.0.3");
    assert_eq!(proxy.local_service_port, 6);
    // Its own checks are in the place of both.
    let checks = world.registry.known().own_checks("web1-sidecar-proxy");
    let checks: Vec<_> = checks.map(|check| check.id.as_str()).collect();
    assert_eq!(checks, ["service:web1-sidecar-proxy"]);
}

fn named(name: &str, port: i64) -> Change {
    let connect = json!({ "SidecarService": {} });
    register(json!({ "Name": name, "Port": port, "Connect": connect }))
}

#[test]
fn ports_are_the_lowest_that_are_free_and_stay() {
    let mut world = World::default();
    let port = |world: &World, name: &str| {
        let sidecar = world.service(&format!("{name}-sidecar-proxy"));
        sidecar.map(|sidecar| sidecar.port)
    };
    // A service that has one of them itself is in the way.
    world.change(&register(json!({ "Name": "other", "Port": 21001 })));
    for name in ["a", "b", "c"] {
        world.change(&named(name, 1));
    }
    assert_eq!(port(&world, "a"), Some(21000));
    assert_eq!(port(&world, "b"), Some(21002));
    assert_eq!(port(&world, "c"), Some(21003));
    world.change(&named("c", 2));
    assert_eq!(port(&world, "c"), Some(21003), "the same again");
    world.change(&deregister("b"));
    world.change(&named("d", 1));
    assert_eq!(
        port(&world, "d"),
        Some(21002),
        "what is free is given again"
    );
    // The parent's own port is not its sidecar's.
    world.change(&named("e", 21004));
    assert_eq!(port(&world, "e"), Some(21005));
}

#[test]
fn without_a_port_nothing_is_registered() {
    let mut world = World::default();
    for number in 0..256 {
        world.change(&named(&format!("s{number}"), 1));
    }
    let last = world.service("s255-sidecar-proxy").unwrap();
    assert_eq!(last.port, 21255);
    let refused = world.try_change(&named("more", 1)).unwrap_err().to_string();
    assert_eq!(
        refused,
        "Bad request: Invalid SidecarService: none left in the configured sidecar port range \
         21000-21255"
    );
    assert!(world.service("more").is_none(), "all of it or nothing");
    world.change(&named("s3", 2));
}

#[test]
fn a_sidecar_follows_its_parent_as_long_as_it_is_asked_for() {
    let mut world = registered(&json!({}));
    let mut changed = web(&json!({}));
    changed["Tags"] = json!(["c"]);
    world.change(&register(changed.clone()));
    assert_eq!(world.service("web1-sidecar-proxy").unwrap().tags, ["c"]);
    // Without the block it stays as it was.
    changed["Tags"] = json!(["d"]);
    changed.as_object_mut().unwrap().remove("Connect");
    world.change(&register(changed));
    assert_eq!(world.service("web1").unwrap().tags, ["d"]);
    assert_eq!(world.service("web1-sidecar-proxy").unwrap().tags, ["c"]);
    // And it still goes with its parent.
    world.change(&deregister("web1"));
    assert!(world.service("web1-sidecar-proxy").is_none());
    assert_eq!(world.registry.known().checks().len(), 0);
}

#[test]
fn who_is_deregistered_takes_only_its_own_with_it() {
    let mut world = registered(&json!({}));
    world.change(&deregister("web1-sidecar-proxy"));
    assert!(world.service("web1").is_some(), "the parent stays");
    // A service that merely has the conventional id.
    world.change(&register(
        json!({ "Name": "x", "ID": "web1-sidecar-proxy" }),
    ));
    world.change(&deregister("web1"));
    assert!(world.service("web1-sidecar-proxy").is_some());
    world.change(&deregister("nobody"));
}
