//! The content of the catalog is in the kernel, and traffic follows.

use serde_json::json;
use shunt_tests::{Continuous, addresses, refuse_foreign_resync};

use crate::read_again::many;
use crate::world::{Plan, REQUEST, SERVED, SOON, WEB, World, is_current, registration, web};

const A: &str = "a";
const B: &str = "b";

#[test]
fn registrations_and_health_are_in_the_kernel_and_traffic_follows() {
    let Some(world) = World::new() else {
        return;
    };
    world.await_source("all is there", is_current);
    world.register(&registration(A, addresses::POD_A, "passing"));
    world.await_pods(&["pod-a"]);
    let mut open = world.pod().enter(|| web().connect().unwrap());
    world.register(&registration(B, addresses::POD_B, "warning"));
    world.await_pods(&["pod-a", "pod-b"]);
    let traffic = Continuous::start(world.pod(), web(), REQUEST);
    // Critical is on its way out, and not gone.
    world.register(&registration(A, addresses::POD_A, "critical"));
    world.await_pods(&["pod-b"]);
    open.echo(REQUEST).unwrap();
    world.register(&registration(A, addresses::POD_A, "passing"));
    world.await_pods(&["pod-a", "pod-b"]);
    // The output of a check is no change: the events are as many as before.
    let applied = world.shunt("status")["applied"].clone();
    for output in ["one", "two", "three"] {
        let mut body = registration(A, addresses::POD_A, "passing");
        body["Checks"][0]["Output"] = json!(output);
        world.register(&body);
    }
    world.deregister(B);
    world.await_pods(&["pod-a"]);
    let applied_since =
        world.shunt("status")["applied"].as_u64().unwrap() - applied.as_u64().unwrap();
    assert_eq!(applied_since, 1, "the deregistration alone");
    traffic.wait_for(50, SOON).unwrap();
    for sample in traffic.stop().unwrap() {
        assert!(sample.outcome.is_ok(), "{sample:?}");
    }
    world.deregister(A);
    world.await_backends(&[]);
    let text = world.status_text();
    assert!(text.contains("consul node:"), "{text}");
    assert!(text.contains("n1, datacenter dc1"), "{text}");
}

#[test]
fn a_resync_of_a_client_takes_no_service_of_the_catalog_away() {
    let Some(world) = World::new() else {
        return;
    };
    world.register(&registration(A, addresses::POD_A, "passing"));
    world.await_pods(&["pod-a"]);
    refuse_foreign_resync(world.agent.socket(), "following Consul at ").unwrap();
    world.await_pods(&["pod-a"]);
}

#[test]
fn maintenance_of_a_service_and_of_a_node_drains() {
    let Some(world) = World::new() else {
        return;
    };
    // Registered with the agent, whose own endpoints set maintenance.
    for (id, address) in [(A, addresses::POD_A), (B, addresses::POD_B)] {
        let body =
            json!({ "Name": "web", "ID": id, "Address": address.to_string(), "Port": SERVED });
        world.put("/v1/agent/service/register", &body);
    }
    world.await_pods(&["pod-a", "pod-b"]);
    let nothing = json!({});
    for (path, pods) in [
        ("service/maintenance/a?enable=true", &["pod-b"][..]),
        ("service/maintenance/a?enable=false", &["pod-a", "pod-b"]),
    ] {
        world.put(&format!("/v1/agent/{path}"), &nothing);
        world.await_pods(pods);
    }
    world.put("/v1/agent/maintenance?enable=true", &nothing);
    world.await_backends(&[]);
    world.put("/v1/agent/maintenance?enable=false", &nothing);
    world.await_pods(&["pod-a", "pod-b"]);
    // Local to the node of the Consul agent.
    let frontends = world.shunt("services");
    assert_eq!(frontends[0]["backends"][0]["local"], true, "{frontends:#}");
}

#[test]
fn odd_instances_are_shown_with_reasons_and_nobody_else_is_concerned() {
    let Some(world) = World::new() else {
        return;
    };
    world.register(&registration(A, addresses::POD_A, "passing"));
    for (id, address, port, reason) in [
        ("name", "db.example", 80, "is not an IP address"),
        ("loop", "127.0.0.1", 80, "loopback: 127.0.0.1"),
        ("port", "10.1.1.3", 70_000, "port: 70000 is outside 1-65535"),
        (
            "family",
            "fd00::1",
            80,
            "no address of the frontend's family",
        ),
    ] {
        let mut body = registration(id, addresses::POD_A, "passing");
        body["Service"]["Address"] = json!(address);
        body["Service"]["Port"] = json!(port);
        world.register(&body);
        world.await_source("it is shown", |source| {
            source["skipped"].to_string().contains(reason)
        });
        world.deregister(id);
        world.await_source("it is gone", |source| source["skipped"] == json!([]));
    }
    world.await_backends(&[addresses::POD_A]);
    world.await_pods(&["pod-a"]);
}

#[test]
fn connect_frontends_lead_to_sidecars_and_filters_hold() {
    sidecars_are_followed("");
}

#[test]
fn connect_frontends_follow_the_checks_of_sidecars_with_hints_too() {
    sidecars_are_followed(&many());
}

fn sidecars_are_followed(others: &str) {
    let frontends = format!(
        "{others}{WEB}tags = [\"v2\", \"!canary\"]\n\n[[frontend]]\nservice = \"web\"\nname = \"mesh\"\n\
         vip = \"10.200.0.2\"\nport = 80\nconnect = true\n"
    );
    let Some(world) = World::with(Plan::new(&frontends), |_, _, _| {}) else {
        return;
    };
    for (id, address, tags) in [
        (A, addresses::POD_A, json!(["V2"])),
        (B, addresses::POD_B, json!(["v2", "canary"])),
    ] {
        let body = json!({
            "Name": "web", "ID": id, "Address": address.to_string(), "Port": SERVED, "Tags": tags,
            "Connect": { "SidecarService": { "Port": 21_000, "Checks": [{ "TTL": "1h", "Status": "passing" }] } },
        });
        world.put("/v1/agent/service/register", &body);
    }
    world.await_backends(&[addresses::POD_A]);
    let await_mesh = |sidecars: &[&str]| {
        let sidecars: std::collections::BTreeSet<String> =
            sidecars.iter().map(|at| (*at).to_owned()).collect();
        let found = shunt_tests::wait_until("the sidecars", SOON, || {
            let frontends = world.frontends();
            (frontends.get("10.200.0.2:80") == Some(&sidecars)).then_some(())
        });
        assert!(found.is_ok(), "{:#?}", world.frontends());
    };
    await_mesh(&["10.1.1.3:21000", "10.1.1.4:21000"]);
    // The sidecar's own check is one of another service by name.
    let check = "/v1/agent/check/fail/service:a-sidecar-proxy";
    world.put(check, &json!({}));
    await_mesh(&["10.1.1.4:21000"]);
}
