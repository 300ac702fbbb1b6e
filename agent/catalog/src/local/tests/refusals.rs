//! Refused requests, in the words and by the status that Consul's agent has.

use serde_json::{Value, json};

use super::world::{World, check, deregister, register};
use crate::local::state::{refusal::Refusal, register::Change};

const RESERVED: &str = "Couldn't load metadata pair ('consul-a', 'b'): Key prefix 'consul-' is reserved for internal use";

fn bad(text: &str) -> Refusal {
    Refusal::Bad(text.to_owned())
}

fn failed(text: &str) -> Refusal {
    Refusal::Failed(text.to_owned())
}

fn with_sidecar(sidecar: &Value) -> Value {
    json!({ "Name": "x", "Connect": { "SidecarService": sidecar } })
}

#[test]
fn a_service_is_refused_as_consul_refuses_it() {
    let meta = json!({ "consul-a": "b" });
    for (value, refusal) in [
        (json!({ "ID": "x" }), bad("Missing service name")),
        (
            json!({ "Name": "Shunt-Gateway", "ID": "x" }),
            bad(
                "Invalid service name: \"shunt-gateway\" is for gateways, which the agent offers to other \
                 datacenters by itself",
            ),
        ),
        (
            json!({ "Name": "x", "Address": "0.0.0.0" }),
            bad("Invalid service address"),
        ),
        (
            json!({ "Name": "x", "Address": "::" }),
            bad("Invalid service address"),
        ),
        (
            json!({ "Name": "x", "Meta": meta }),
            Refusal::Bad(format!("Invalid Service Meta: {RESERVED}")),
        ),
        (
            json!({ "Name": "x", "Weights": { "Passing": 0, "Warning": 1 } }),
            bad("Invalid Weights: Passing must be greater than 0"),
        ),
        (
            json!({ "Name": "x", "Weights": { "Passing": 1, "Warning": -1 } }),
            bad("Invalid Weights: Warning must be greater or equal than 0"),
        ),
        (
            json!({ "Name": "x", "Weights": { "Passing": 70000, "Warning": 1 } }),
            bad("Invalid Weights: DNS Weight must be between 0 and 65535"),
        ),
        (
            json!({ "Name": "x", "Check": { "TTL": "1s", "Status": "odd" } }),
            bad("Status for checks must 'passing', 'warning', 'critical'"),
        ),
        (
            json!({ "Name": "x", "Check": { "Name": "foo" } }),
            bad("Invalid check: TTL must be > 0 for TTL checks"),
        ),
        (
            json!({ "Name": "p", "Kind": "connect-proxy" }),
            bad(
                "2 errors occurred:\n\t* Proxy.DestinationServiceName must be non-empty for Connect \
                 proxy services\n\t* Port must be set for a Connect proxy\n\n",
            ),
        ),
        (
            json!({
                "Name": "p", "Kind": "connect-proxy", "Proxy": { "DestinationServiceName": "web" },
            }),
            bad("1 error occurred:\n\t* Port must be set for a Connect proxy\n\n"),
        ),
        (
            with_sidecar(&json!({ "ID": "own" })),
            bad(
                "1 error occurred:\n\t* A SidecarService cannot specify an ID as this is managed by \
                 the agent\n\n",
            ),
        ),
        (
            with_sidecar(&json!({ "Connect": { "SidecarService": {} } })),
            bad("1 error occurred:\n\t* A SidecarService cannot have a nested SidecarService\n\n"),
        ),
        (
            with_sidecar(&json!({ "Meta": meta })),
            Refusal::Failed(format!("Bad request: Invalid SidecarService: {RESERVED}")),
        ),
        (
            with_sidecar(&json!({ "Check": { "Name": "odd" } })),
            failed("Bad request: Invalid check in sidecar_service: TTL must be > 0 for TTL checks"),
        ),
    ] {
        let mut world = World::default();
        assert_eq!(
            world.try_change(&register(value.clone())),
            Err(refusal),
            "{value}"
        );
        assert_eq!(world.registry.known().services().len(), 0, "{value}");
    }
}

#[test]
fn other_requests_are_refused_as_consul_refuses_them() {
    let mut world = World::default();
    let maintenance = Change::Maintenance {
        service: "nope".to_owned(),
        reason: Some(String::new()),
    };
    for (change, refusal) in [
        (deregister(""), failed("ServiceID missing")),
        (
            maintenance,
            Refusal::Missing("No service registered with ID \"nope\"".to_owned()),
        ),
        (check(json!({ "TTL": "1s" })), bad("Missing check name")),
        (
            check(json!({ "Name": "c", "TTL": "1s", "Status": "odd" })),
            bad("Bad check status"),
        ),
        (
            check(json!({ "Name": "c", "TTL": "1s", "ServiceID": "nope" })),
            failed("ServiceID \"nope\" does not exist"),
        ),
    ] {
        assert_eq!(world.try_change(&change), Err(refusal));
    }
    world.change(&deregister("nope"));
    world.change(&Change::DeregisterCheck("nope".to_owned()));
}

#[test]
fn odd_ports_and_addresses_are_taken_as_consul_takes_them() {
    let mut world = World::default();
    for (id, port, address) in [
        ("a", 0, "10.1.1.1:80"),
        ("b", -1, " 10.1.1.1"),
        ("c", 65_536, "fe80::1%eth0"),
        ("d", 70_000, "host.example"),
        ("e", 1, "127.0.0.1"),
    ] {
        let value = json!({ "Name": "x", "ID": id, "Port": port, "Address": address });
        world.change(&register(value));
        assert_eq!(world.service(id).unwrap().port, port);
    }
}

#[test]
fn checks_get_their_ids_as_consul_gives_them() {
    let ids = |value: Value| {
        let mut world = World::default();
        world.change(&register(value));
        let checks = world.registry.known().checks();
        checks
            .map(|check| (check.id.clone(), check.name.clone()))
            .collect::<Vec<_>>()
    };
    let pair = |id: &str, name: &str| (id.to_owned(), name.to_owned());
    let one = json!({ "Name": "web", "ID": "w", "Check": { "TTL": "1s" } });
    assert_eq!(ids(one), [pair("service:w", "Service 'web' check")]);
    let two = json!({
        "Name": "web", "ID": "w",
        "Checks": [{ "TTL": "1s" }, { "TTL": "1s", "Name": "n", "CheckID": "own" }],
    });
    let expected = [pair("own", "n"), pair("service:w:1", "Service 'web' check")];
    assert_eq!(ids(two), expected);
}

#[test]
fn checks_stay_over_a_registration_unless_they_are_to_be_replaced() {
    let mut world = World::default();
    let with = |id: &str| json!({ "Name": "w", "Check": { "TTL": "1s", "CheckID": id } });
    world.change(&register(with("a")));
    world.change(&Change::Maintenance {
        service: "w".to_owned(),
        reason: Some("so".to_owned()),
    });
    world.change(&register(with("b")));
    let ids = |world: &World| {
        let checks = world.registry.known().checks();
        checks.map(|check| check.id.clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&world), ["_service_maintenance:w", "a", "b"]);
    let Change::Register { definition, .. } = register(with("c")) else {
        unreachable!()
    };
    world.change(&Change::Register {
        definition,
        replaces_checks: true,
    });
    assert_eq!(ids(&world), ["_service_maintenance:w", "c"]);
}
