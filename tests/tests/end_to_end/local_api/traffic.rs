//! From a registration to the traffic of its service.

use std::{fs, net::SocketAddr};

use serde_json::{Value, json};
use shunt_tests::{Target, addresses, refuse_foreign_resync, wait_until};

use super::place::{Kept, Place, SOON, VIP};
use crate::world::{REQUEST, SERVED};

/// Port that the check of a test connects to, at a pod.
const CHECKED: u16 = 9000;

#[test]
fn traffic_follows_registrations_and_maintenance() {
    let Some(place) = Place::new() else {
        return;
    };
    let kept = &place.kept;
    place.is_served_by(&[]);
    kept.register(&place.web("pod-a"));
    place.is_served_by(&["pod-a"]);
    kept.register(&place.web("pod-d"));
    place.is_served_by(&["pod-a", "pod-d"]);
    let maintenance = |id: &str, enable: bool| {
        let path = format!("service/maintenance/{id}?enable={enable}&reason=a%20test");
        kept.put(&path, &Value::Null);
    };
    maintenance("pod-a", true);
    place.is_served_by(&["pod-d"]);
    maintenance("pod-a", false);
    place.is_served_by(&["pod-a", "pod-d"]);
    kept.put("service/deregister/pod-d", &Value::Null);
    place.is_served_by(&["pod-a"]);
    // The whole node.
    kept.put("maintenance?enable=true", &Value::Null);
    place.is_served_by(&[]);
    kept.put("maintenance?enable=false", &Value::Null);
    place.is_served_by(&["pod-a"]);
    let shown = place.shown();
    assert_eq!(shown["services"], 1);
    assert_eq!(shown["frontends"], 1);
    assert_eq!(shown["pending"], 0);
}

#[test]
fn a_resync_of_a_client_takes_no_registered_service_away() {
    let Some(place) = Place::new() else {
        return;
    };
    place.kept.register(&place.web("pod-a"));
    place.is_served_by(&["pod-a"]);
    let source = "following registered services, by the frontends in ";
    refuse_foreign_resync(place.agent.socket(), source).unwrap();
    place.is_served_by(&["pod-a"]);
}

#[test]
fn a_service_at_another_machines_address_is_reached_by_snat() {
    for has_ranges in [true, false] {
        let kept = Kept::new();
        let mut flags = kept.flags();
        if !has_ranges {
            // Routes decide then.
            let range = flags.iter().position(|flag| flag == "--pod-cidr").unwrap();
            flags.drain(range..range + 2);
        }
        let Some(place) = Place::with_all(kept, &flags) else {
            return;
        };
        // The other machine knows no way to the client outside, and one to the pods here.
        let node2 = place.sandbox.node2();
        let (pods, node) = (addresses::POD_CIDR, addresses::NODE);
        let routes = format!("route del default\nroute add {pods} via {node}\n");
        node2.configure(&routes).unwrap();
        let outside = place.sandbox.outside();
        let vip: SocketAddr = VIP.parse().unwrap();
        let route = format!("route replace {} via 198.51.100.1\n", vip.ip());
        outside.configure(&route).unwrap();
        for (pod, client) in [("pod-a", addresses::OUTSIDE), ("pod-d", addresses::NODE)] {
            place.kept.register(&place.web(pod));
            place.is_served_by(&[pod]);
            let answer = outside.enter(|| Target::tcp(vip).ask(REQUEST)).unwrap();
            assert_eq!(answer.peer.ip(), client, "{pod}, {has_ranges}");
            let path = format!("service/deregister/{pod}");
            place.kept.put(&path, &Value::Null);
            place.is_served_by(&[]);
        }
    }
}

#[test]
fn traffic_follows_checks_that_are_really_asked() {
    let Some(mut place) = Place::new() else {
        return;
    };
    let checked = |place: &Place, pod: &str, check: Value| {
        let mut web = place.web(pod);
        web["Check"] = check;
        place.kept.register(&web);
    };
    let tcp = format!("{}:{CHECKED}", place.sandbox.pod("pod-a").address());
    checked(
        &place,
        "pod-a",
        json!({ "TCP": tcp, "Interval": "100ms", "Timeout": "1s" }),
    );
    checked(&place, "pod-b", json!({ "TTL": "10m" }));
    let health = place
        .kept
        .ask("GET", "/v1/agent/health/service/name/web?format=text", "");
    assert_eq!((health.status, &*health.body), (503, "critical"));
    place
        .kept
        .put("check/pass/service:pod-b?note=well", &Value::Null);
    place.is_served_by(&["pod-b"]);
    // A server listens there now.
    place.sandbox.serve("pod-a", &[SERVED, CHECKED]).unwrap();
    place.is_served_by(&["pod-a", "pod-b"]);
    let writes = place.shown()["writes"].clone();
    // A check's output alone is no reason to write, nor to notify a client.
    for number in 0..20 {
        let path = format!("check/pass/service:pod-b?note=number{number}");
        place.kept.put(&path, &Value::Null);
    }
    let output = &place.kept.get("checks")["service:pod-b"]["Output"];
    assert_eq!(*output, "number19");
    place.kept.put("check/fail/service:pod-b", &Value::Null);
    place.is_served_by(&["pod-a"]);
    assert!(place.shown()["writes"].as_u64() <= writes.as_u64().map(|before| before + 2));
    place.sandbox.serve("pod-a", &[SERVED]).unwrap();
    place.is_served_by(&[]);
}

#[test]
fn a_sidecar_is_found_for_its_service_and_follows_its_health() {
    let Some(place) = Place::new() else {
        return;
    };
    let mut web = place.web("pod-a");
    web["Connect"] = json!({ "SidecarService": {} });
    place.kept.register(&web);
    let services = place.kept.get("services");
    let sidecar = &services["pod-a-sidecar-proxy"];
    assert_eq!(sidecar["Kind"], "connect-proxy");
    assert_eq!(sidecar["Proxy"]["DestinationServiceID"], "pod-a");
    assert_eq!(sidecar["Port"], 21000);
    let alias = |place: &Place| {
        let checks = place.kept.get("checks");
        checks["service:pod-a-sidecar-proxy:2"]["Status"].clone()
    };
    assert_eq!(alias(&place), "passing");
    place
        .kept
        .put("service/maintenance/pod-a?enable=true", &Value::Null);
    assert_eq!(alias(&place), "critical");
    place.kept.put("service/deregister/pod-a", &Value::Null);
    assert_eq!(place.kept.get("services"), json!({}));
}

#[test]
fn an_agreed_address_outlives_a_restart_while_instances_disagree() {
    let kept = Kept::new();
    let frontends = "[[frontend]]\nservice = \"web\"\nvip_from_tag = \"virtual\"\nport = 80\n";
    fs::write(kept.frontends(), frontends).unwrap();
    let Some(place) = Place::with(kept, &[]) else {
        return;
    };
    let register = |place: &Place, pod: &str, vip: &str| {
        let mut web = place.web(pod);
        web["TaggedAddresses"] = json!({ "virtual": { "Address": vip, "Port": 80 } });
        place.kept.register(&web);
    };
    register(&place, "pod-a", "10.96.0.10");
    place.is_served_by(&["pod-a"]);
    wait_until("the address is kept", SOON, || {
        let text = fs::read_to_string(place.kept.addresses()).ok()?;
        text.contains("10.96.0.10").then_some(())
    })
    .unwrap();
    register(&place, "pod-b", "10.96.0.11");
    place.is_served_by(&["pod-a", "pod-b"]);
    let place = place.killed_and_started();
    wait_until("the conflict is shown", SOON, || {
        let shown = place.shown()["untranslated"].to_string();
        shown.contains("conflict").then_some(())
    })
    .unwrap();
    place.is_served_by(&["pod-a", "pod-b"]);
}
