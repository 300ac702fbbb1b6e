//! Rules 22 to 31: from slices to endpoints.

use serde_json::{Value, json};

use super::world::World;

#[test]
fn a_slice_port_is_known_by_name_and_protocol_not_by_number() {
    let endpoints = || json!([{ "addresses": ["10.0.0.1"] }]);
    for (service, slice, expected) in [
        // Pods may have different numbers for one name.
        (
            json!({ "name": "http" }),
            json!([{ "name": "http", "port": 9000 }]),
            &["10.0.0.1:9000 C"][..],
        ),
        (
            json!({ "name": "http" }),
            json!([{ "name": "", "port": 8080 }]),
            &[],
        ),
        (
            json!({ "name": "http" }),
            json!([{ "name": "http", "port": 8080, "protocol": "UDP" }]),
            &[],
        ),
        (
            json!({ "name": "" }),
            json!([{ "name": "", "port": 8080 }]),
            &["10.0.0.1:8080 C"],
        ),
        (
            json!({}),
            json!([{ "name": "", "port": 8080 }]),
            &["10.0.0.1:8080 C"],
        ),
        (json!({}), json!([{ "name": null, "port": 8080 }]), &[]),
        (json!({}), json!([{ "name": "http", "port": 8080 }]), &[]),
        (
            json!({ "name": "http" }),
            json!([{ "name": "http", "port": 1 }, { "name": "http", "port": 2 }]),
            &["10.0.0.1:1 C", "10.0.0.1:2 C"],
        ),
    ] {
        let mut port = service.clone();
        port["port"] = 80.into();
        let world = World::new().spec(json!({ "ports": [port] })).slice_of(
            "IPv4",
            slice.clone(),
            endpoints(),
        );
        assert_eq!(world.endpoints(), expected, "{service} {slice}");
    }
}

#[test]
fn endpoints_keep_their_hostnames() {
    let ports = || json!([{ "name": "http", "port": 8080 }]);
    let world = World::new()
        .slice_of(
            "IPv4",
            ports(),
            json!([
                { "addresses": ["10.0.0.1"], "hostname": "web-0" },
                { "addresses": ["10.0.0.2"] },
            ]),
        )
        .slice_of(
            "IPv4",
            ports(),
            json!([
                { "addresses": ["10.0.0.1"], "hostname": "other" },
                { "addresses": ["10.0.0.3"], "hostname": "web-2" },
            ]),
        );
    let hostnames = world.model().hostnames.unwrap();
    let found: Vec<String> = hostnames
        .iter()
        .map(|(ip, hostname)| format!("{ip} {hostname}"))
        .collect();
    assert_eq!(found, ["10.0.0.1 web-0", "10.0.0.3 web-2"]);
    assert_eq!(World::new().model().hostnames, None);
}

#[test]
fn conditions_are_what_they_say() {
    for (conditions, expected) in [
        (json!(null), "10.0.0.1:8080 C"),
        (json!({}), "10.0.0.1:8080 C"),
        (json!({ "ready": false }), "10.0.0.1:8080 CN"),
        (
            json!({ "ready": false, "serving": true }),
            "10.0.0.1:8080 CN",
        ),
        // `serving` that is missing is true, whatever `ready` is.
        (
            json!({ "ready": false, "terminating": true }),
            "10.0.0.1:8080 CTS",
        ),
        (
            json!({ "ready": false, "serving": true, "terminating": true }),
            "10.0.0.1:8080 CTS",
        ),
        (
            json!({ "ready": false, "serving": false, "terminating": true }),
            "10.0.0.1:8080 CT",
        ),
        // publishNotReadyAddresses.
        (
            json!({ "ready": true, "serving": false, "terminating": true }),
            "10.0.0.1:8080 C",
        ),
    ] {
        let endpoints = json!([{ "addresses": ["10.0.0.1"], "conditions": conditions }]);
        assert_eq!(
            World::new().slice(endpoints).endpoints(),
            [expected],
            "{conditions}"
        );
    }
}

#[test]
fn local_is_what_has_this_nodes_name() {
    let world = World::new().slice(json!([
        { "addresses": ["10.0.0.1"], "nodeName": "here" },
        { "addresses": ["10.0.0.2"], "nodeName": "there", "hostname": "here" },
        { "addresses": ["10.0.0.3"] },
    ]));
    assert_eq!(
        world.endpoints(),
        ["10.0.0.1:8080 CL", "10.0.0.2:8080 C", "10.0.0.3:8080 C"]
    );
    assert_eq!(
        world.node("there", None).endpoints(),
        ["10.0.0.1:8080 C", "10.0.0.2:8080 CL", "10.0.0.3:8080 C"]
    );
}

#[test]
fn the_slices_of_a_service_are_united_and_sorted() {
    let world = World::new()
        .slice(json!([{ "addresses": ["10.0.0.10"] }, { "addresses": ["10.0.0.2"] }]))
        .slice_of(
            "IPv6",
            json!([{ "name": "http", "port": 8080 }]),
            json!([{ "addresses": ["fd00::1"] }]),
        )
        .slice_of(
            "FQDN",
            json!([{ "name": "http", "port": 1 }]),
            json!([{ "addresses": ["10.0.0.1"] }]),
        )
        .slice(json!([{ "addresses": ["10.0.0.3"] }]));
    assert_eq!(
        world.endpoints(),
        [
            "10.0.0.2:8080 C",
            "10.0.0.3:8080 C",
            "10.0.0.10:8080 C",
            "fd00::1:8080 C"
        ]
    );
}

#[test]
fn of_duplicates_the_one_that_stays_counts() {
    let ready = json!({ "addresses": ["10.0.0.1"], "nodeName": "there" });
    let local = json!({ "addresses": ["10.0.0.1"], "nodeName": "here" });
    let with = |mut endpoint: Value, conditions: Value| {
        endpoint["conditions"] = conditions;
        endpoint
    };
    let leaving = json!({ "ready": false, "serving": true, "terminating": true });
    let unready = json!({ "ready": false });
    let late = json!({ "ready": true, "terminating": true });
    for (one, other, expected) in [
        (
            ready.clone(),
            with(local.clone(), leaving.clone()),
            "10.0.0.1:8080 C",
        ),
        (
            local.clone(),
            with(ready.clone(), leaving.clone()),
            "10.0.0.1:8080 CL",
        ),
        (ready.clone(), local.clone(), "10.0.0.1:8080 CL"),
        (
            ready.clone(),
            with(local.clone(), unready.clone()),
            "10.0.0.1:8080 C",
        ),
        (
            with(ready.clone(), unready.clone()),
            with(local.clone(), leaving.clone()),
            "10.0.0.1:8080 CN",
        ),
        (
            with(ready.clone(), unready),
            with(local.clone(), late),
            "10.0.0.1:8080 CN",
        ),
        (
            with(ready.clone(), leaving.clone()),
            with(local.clone(), leaving),
            "10.0.0.1:8080 CLTS",
        ),
    ] {
        for [first, second] in [[&one, &other], [&other, &one]] {
            let apart = World::new().slice(json!([first])).slice(json!([second]));
            let together = World::new().slice(json!([first, second]));
            for world in [apart, together] {
                assert_eq!(world.endpoints(), [expected], "{first} {second}");
            }
        }
    }
    // The same address with another port is another endpoint.
    let ports = json!([{ "name": "http", "port": 9090 }]);
    let world = World::new()
        .slice(json!([ready]))
        .slice_of("IPv4", ports, json!([ready]));
    assert_eq!(world.endpoints(), ["10.0.0.1:8080 C", "10.0.0.1:9090 C"]);
}

#[test]
fn addresses_of_endpoints_that_cannot_be_are_left_out() {
    let world = World::new().slice(json!([
        { "addresses": ["10.0.0.01"] },
        { "addresses": ["169.254.1.1"] },
        { "addresses": ["127.0.0.1"] },
        { "addresses": ["127.0.0.1"] },
        { "addresses": ["nonsense"] },
        { "addresses": ["fd00::1"] },
        { "addresses": [] },
    ]));
    let translation = world.translate();
    let problems: Vec<_> = translation
        .problems
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        problems,
        [
            "endpoints[].addresses[0]: `nonsense` is not an IP address",
            "endpoints[].addresses[0]: 127.0.0.1 is a loopback address, which cannot be used here",
        ]
    );
    let endpoints = &translation.service.unwrap().ports[0].endpoints;
    let found: Vec<_> = endpoints
        .iter()
        .map(|endpoint| endpoint.ip.to_string())
        .collect();
    assert_eq!(found, ["10.0.0.1", "169.254.1.1"]);
}
