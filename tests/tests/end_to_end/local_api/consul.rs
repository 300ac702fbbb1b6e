//! The real Consul's own commands, as clients.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::json;
use shunt_tests::{consul_binary, wait_until};

use super::place::{Place, SOON};

/// Runs a command against the place's agent; returns whether it succeeded, and all its output.
pub(super) fn run(consul: &Path, place: &Place, arguments: &[&str]) -> (bool, String) {
    let address = format!("unix://{}", place.kept.socket().display());
    let output = Command::new(consul)
        .args(arguments)
        .env("CONSUL_HTTP_ADDR", address)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&said).into_owned(),
    )
}

#[test]
fn consuls_own_commands_register_and_take_out_of_service() {
    let (Some(consul), Some(place)) = (consul_binary(), Place::new()) else {
        return;
    };
    let backend = place.backend("pod-a");
    let (ip, port) = (backend.ip().to_string(), backend.port().to_string());
    let register = [
        "services",
        "register",
        "-name=web",
        "-id=web1",
        "-address",
        &ip,
        "-port",
        &port,
        "-tag=t",
    ];
    let (is_done, said) = run(&consul, &place, &register);
    assert!(is_done, "{said}");
    place.is_served_by(&["pod-a"]);
    let (is_done, said) = run(
        &consul,
        &place,
        &["maint", "-enable", "-service=web1", "-reason=x"],
    );
    assert!(is_done, "{said}");
    place.is_served_by(&[]);
    let (is_done, said) = run(&consul, &place, &["maint"]);
    assert!(
        is_done && said.contains("web1") && said.contains("Reason: x"),
        "{said}"
    );
    let (is_done, said) = run(&consul, &place, &["maint", "-disable", "-service=web1"]);
    assert!(is_done, "{said}");
    place.is_served_by(&["pod-a"]);
    let file = place.kept.definitions();
    let definition = json!({ "service": {
        "name": "web", "id": "web2", "address": place.backend("pod-b").ip(), "port": port.parse::<u16>().unwrap(),
        "connect": { "sidecar_service": {} },
    }});
    fs::write(&file, definition.to_string()).unwrap();
    let (is_done, said) = run(
        &consul,
        &place,
        &["services", "register", file.to_str().unwrap()],
    );
    assert!(is_done, "{said}");
    place.is_served_by(&["pod-a", "pod-b"]);
    for id in ["web1", "web2"] {
        let (is_done, said) = run(&consul, &place, &["services", "deregister", "-id", id]);
        assert!(is_done, "{said}");
    }
    assert_eq!(place.kept.get("services"), json!({}));
}

#[test]
fn consuls_proxy_finds_its_sidecar() {
    let (Some(consul), Some(place)) = (consul_binary(), Place::new()) else {
        return;
    };
    let sidecar = json!({ "SidecarService": {} });
    place.kept.register(&json!({ "Name": "plain", "Port": 1 }));
    place
        .kept
        .register(&json!({ "Name": "one", "Port": 1, "Connect": sidecar }));
    place
        .kept
        .register(&json!({ "Name": "two", "Port": 1, "Connect": sidecar }));
    place.kept.register(&json!({
        "Name": "other-proxy", "Kind": "connect-proxy", "Port": 2,
        "Proxy": { "DestinationServiceName": "two", "DestinationServiceID": "two" },
    }));
    let proxy = |service: &str| {
        let (is_done, said) = run(
            &consul,
            &place,
            &["connect", "proxy", "-sidecar-for", service],
        );
        assert!(!is_done, "{said}");
        said
    };
    let said = proxy("plain");
    assert!(
        said.contains("No sidecar proxy registered for plain"),
        "{said}"
    );
    let said = proxy("two");
    for part in [
        "More than one sidecar proxy registered for two.",
        "Start proxy with -proxy-id and one of the following IDs:",
        "two-sidecar-proxy",
        "other-proxy",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    // It runs until it is ended, and waits for its own service to change meanwhile.
    let address = format!("unix://{}", place.kept.socket().display());
    let mut child = Command::new(&consul)
        .args(["connect", "proxy", "-sidecar-for", "one"])
        .env("CONSUL_HTTP_ADDR", address)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let waits = || (place.shown()["waiting"] == 1).then_some(());
    let found = wait_until("the proxy's read that waits", SOON, waits);
    child.kill().unwrap();
    child.wait().unwrap();
    found.unwrap();
    place.are_waiting(0);
}
