//! The owner of an address, by the command.

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use shunt_tests::Transport;

use crate::{
    service::Service,
    world::{World, binary},
};

/// Returns the workloads beside the services.
fn workloads() -> String {
    json!({
        "event": "UpdateWorkloads",
        "workloads": [
            {
                "id": { "kind": "Pod", "namespace": "default", "name": "web-1" },
                "ips": ["10.1.1.3"], "node": "node-1",
                "host_ports": [{ "ip": "192.168.16.10", "port": 9100, "protocol": "UDP" }],
                "owner": { "kind": "ReplicaSet", "name": "web" },
            },
            {
                "id": { "kind": "ExternalWorkload", "namespace": "default", "name": "vm" },
                "ips": ["172.16.0.1"],
                "ports": [{ "port": 80, "protocol": "TCP" }],
            },
        ],
    })
    .to_string()
}

#[test]
fn an_address_is_explained_to_programs_and_to_people() {
    let Some(mut world) = World::new() else {
        return;
    };
    let [a, b] = ["pod-a", "pod-b"].map(|pod| world.backend(pod));
    world.add(&Service::new(Transport::Tcp).backend(a).weighted(b, 0));
    assert_eq!(world.writes(&workloads()), 0, "no table knows workloads");
    let pod = a.to_string();
    for (place, status, kind, words) in [
        (
            "10.96.0.10:80/tcp",
            0,
            "ClusterIP",
            "of service default/web",
        ),
        (
            "10.96.0.10:81",
            1,
            "UndefinedPort",
            "does not declare the port",
        ),
        (
            "203.0.113.7",
            0,
            "ExternalIP",
            "203.0.113.7:80/TCP of service",
        ),
        ("192.168.16.20:30080/tcp", 0, "NodePort", "Node a node"),
        ("192.168.16.10:22", 0, "Node", ", this node"),
        (
            "192.168.16.10:9100/udp",
            0,
            "HostPort",
            "Pod default/web-1 on node-1",
        ),
        (&*pod, 0, "Pod", "Running, of ReplicaSet/web"),
        ("172.16.0.1:80", 0, "ExternalWorkload", "default/vm"),
        ("172.16.0.1:81", 1, "Unknown", "nobody that is known"),
        ("fd00::9", 1, "Unknown", "nobody that is known"),
    ] {
        let ran = world.shunt(&["lookup", place, "-o", "json"]);
        let found = ran.json();
        assert_eq!(
            (ran.status, &found["kind"]),
            (status, &json!(kind)),
            "{place}"
        );
        let ran = world.shunt(&["lookup", place]);
        assert_eq!(ran.status, status, "{place}");
        assert!(ran.output.contains(words), "{place}: {}", ran.output);
    }

    let found = world.shunt(&["lookup", "10.96.0.10:80/tcp", "-o", "json"]);
    let found = found.json();
    let endpoints = found["endpoints"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let shown = endpoints.map(|one| {
        let runs = text(&one["workload"]["name"]);
        (text(&one["ip"]), text(&one["used"]), runs)
    });
    let row = |ip: &str, used: &str, runs: &str| (ip.into(), used.into(), runs.into());
    assert_eq!(
        shown.collect::<Vec<(String, String, String)>>(),
        [
            row("10.1.1.3", "new", "web-1"),
            row("10.1.1.4", "open", "-")
        ]
    );
    let found = world.shunt(&["lookup", &pod, "-o", "json"]).json();
    assert_eq!(found["member_of"][0]["service"], "default/web");
}

#[test]
fn a_lookup_says_where_the_kernel_differs() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.add(&Service::new(Transport::Tcp).backend(world.backend("pod-a")));
    let mut tables = crate::pinned::Tables::open(&world.pins);
    let key = [203, 0, 113, 7, 0, 80, 6, 0];
    tables.frontends.remove(&key).unwrap();
    let found = world.shunt(&["lookup", "203.0.113.7:80", "-o", "json"]);
    let found = found.json();
    let missing = json!([{ "address": "203.0.113.7", "port": 80, "protocol": "TCP" }]);
    assert_eq!(
        (&found["kind"], &found["missing"]),
        (&json!("ExternalIP"), &missing)
    );
    assert_eq!(found["frontends"], json!([]));
    let said = world.shunt(&["lookup", "203.0.113.7:80"]).clean();
    let words = "the kernel lacks the frontend 203.0.113.7:80/TCP";
    assert!(said.contains(words), "{said}");
}

#[test]
fn the_command_follows_an_address() {
    let Some(mut world) = World::new() else {
        return;
    };
    let [a, b] = ["pod-a", "pod-b"].map(|pod| world.backend(pod));
    let socket = world.agent.socket().to_owned();
    let mut following = Command::new(binary())
        .args(["lookup", "10.96.0.10:80/tcp", "--watch", "-o", "json"])
        .arg("--socket")
        .arg(socket)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    let first = next();
    assert_eq!(
        (&first["snapshot"], &first["kind"]),
        (&json!(true), &json!("Unknown"))
    );
    assert_eq!(first["empty"], json!({ "exists": false }));
    world.add(&Service::new(Transport::Tcp).backend(a));
    let added = next();
    assert_eq!(
        (&added["rebind"], &added["kind"]),
        (&json!(true), &json!("ClusterIP"))
    );
    assert_eq!(added["adds"][0]["ip"], json!(a.ip()));
    world.update(&Service::new(Transport::Tcp).backend(b));
    let changed = next();
    assert_eq!(changed["adds"][0]["ip"], json!(b.ip()));
    assert_eq!(changed["removes"][0]["ip"], json!(a.ip()));
    assert!(changed["generation"].as_u64() > added["generation"].as_u64());
    assert_eq!(changed["empty"], Value::Null, "there is no gap");
    // A follower hears of the agent's end.
    world.agent.stop().unwrap();
    assert_eq!(following.wait().unwrap().code(), Some(2));
}

#[test]
fn a_lookup_finds_what_only_the_kernel_has() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.add(&Service::new(Transport::Tcp).backend(world.backend("pod-a")));
    let mut tables = crate::pinned::Tables::open(&world.pins);
    let (known, foreign) = ([203, 0, 113, 7, 0, 80, 6, 0], [9, 9, 9, 9, 0, 80, 6, 0]);
    let index = tables.frontends.get(&known, 0).unwrap();
    tables.frontends.insert(foreign, index, 0).unwrap();
    let found = world.shunt(&["lookup", "9.9.9.9:80", "-o", "json"]);
    let found = found.json();
    assert_eq!(found["kind"], json!("Unknown"));
    let frontends = found["frontends"].as_array().unwrap();
    assert_eq!(frontends.len(), 1, "{found}");
    assert_eq!(frontends[0]["difference"], json!("unknown"));
    // An entry that is not as events lead to is still found by its backend.
    let pod = world.backend("pod-a").to_string();
    let found = world.shunt(&["lookup", &pod, "-o", "json"]).json();
    assert_eq!(found["backend_of"].as_array().unwrap().len(), 4, "{found}");
}
