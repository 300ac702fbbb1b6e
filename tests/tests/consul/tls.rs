//! HTTPS with certificates of both sides.

use std::{fs, path::Path, process::Command};

use serde_json::json;
use shunt_tests::{Consul, ConsulSettings, addresses};

use crate::world::{Plan, WEB, World, ground, is_current, is_stale, registration};

/// The certificates of the server and of a client.
pub(crate) const BOTH: [&[&str]; 2] = [&["-server", "-dc", "dc1"], &["-client", "-dc", "dc1"]];

/// Has Consul make an authority's certificate in the folder, and those that these arguments ask for.
pub(crate) fn certificates(binary: &Path, folder: &Path, asked: &[&[&str]]) {
    let tls = |arguments: &[&str]| {
        let mut command = Command::new(binary);
        let output = command
            .arg("tls")
            .args(arguments)
            .current_dir(folder)
            .output();
        let output = output.unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
    };
    tls(&["ca", "create"]);
    for arguments in asked {
        tls(&[&["cert", "create"], *arguments].concat());
    }
}

/// A server that asks clients for their certificates, with those of this folder.
pub(crate) fn settings(folder: &Path) -> ConsulSettings {
    let file = |name: &str| folder.join(name).display().to_string();
    let mut settings = ConsulSettings::new(addresses::NODE);
    settings.further = json!({
        "ca_file": file("consul-agent-ca.pem"),
        "cert_file": file("dc1-server-consul-0.pem"),
        "key_file": file("dc1-server-consul-0-key.pem"),
        "verify_incoming_https": true,
        "ports": {
            "http": 8500, "https": 8501, "dns": -1, "grpc": -1, "serf_wan": -1,
            "server": 8600, "serf_lan": 8601,
        },
    });
    settings
}

#[test]
fn clients_show_their_certificate_and_many_services_share_connections() {
    let Some((sandbox, binary)) = ground() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    certificates(&binary, folder.path(), &BOTH);
    let file = |name: &str| folder.path().join(name).display().to_string();
    let consul = Consul::start(&binary, sandbox.node(), settings(folder.path())).unwrap();
    // More services than sockets, were each to have one.
    let others = (0..300).map(|number| {
        format!(
            "[[frontend]]\nservice = \"s{number}\"\nvip = \"10.200.2.{}\"\nport = {}\n\n",
            number % 200 + 1,
            80 + number / 200
        )
    });
    let others: String = others.collect();
    let mut plan = Plan::new(&format!("{others}{WEB}"));
    let variables = [
        ("CONSUL_HTTP_ADDR", "127.0.0.1:8501".to_owned()),
        ("CONSUL_HTTP_SSL", "true".to_owned()),
        ("CONSUL_CACERT", file("consul-agent-ca.pem")),
        ("CONSUL_TLS_SERVER_NAME", "server.dc1.consul".to_owned()),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value));
    plan.environment = variables.to_vec();
    let identity = [
        ("CONSUL_CLIENT_CERT", "dc1-client-consul-0.pem"),
        ("CONSUL_CLIENT_KEY", "dc1-client-consul-0-key.pem"),
    ];
    let identity = identity.map(|(name, value)| (name.to_owned(), file(value)));
    plan.environment.extend(identity);
    let world = World::around(sandbox, consul, plan, |_, _, _| {});
    let source = world.await_source("all is there", is_current);
    assert_eq!(source["hints"], false, "{source:#}");
    assert_eq!(source["watches"], 301);
    world.register(&registration("a", addresses::POD_A, "passing"));
    world.await_pods(&["pod-a"]);
    world.register(&registration("a", addresses::POD_A, "critical"));
    world.await_backends(&[]);
}

#[test]
fn without_a_certificate_nothing_is_known_and_it_is_said() {
    let Some((sandbox, binary)) = ground() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    certificates(&binary, folder.path(), &BOTH);
    let file = |name: &str| folder.path().join(name).display().to_string();
    let consul = Consul::start(&binary, sandbox.node(), settings(folder.path())).unwrap();
    let mut plan = Plan::new(WEB);
    plan.environment = vec![
        (
            "CONSUL_HTTP_ADDR".to_owned(),
            "https://127.0.0.1:8501".to_owned(),
        ),
        ("CONSUL_CACERT".to_owned(), file("consul-agent-ca.pem")),
    ];
    let world = World::around(sandbox, consul, plan, |_, _, _| {});
    let source = world.await_source("it is refused", is_stale);
    assert_eq!(source["synced"], false, "{source:#}");
}

#[test]
fn a_certificate_that_is_put_in_place_later_is_read() {
    let Some((sandbox, binary)) = ground() else {
        return;
    };
    let (folder, strangers) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for folder in [&folder, &strangers] {
        certificates(&binary, folder.path(), &BOTH);
    }
    let consul = Consul::start(&binary, sandbox.node(), settings(folder.path())).unwrap();
    let put = |from: &Path| {
        for (name, place) in [("0", "client.pem"), ("0-key", "client-key.pem")] {
            let from = from.join(format!("dc1-client-consul-{name}.pem"));
            fs::copy(from, folder.path().join(place)).unwrap();
        }
    };
    put(strangers.path());
    let mut plan = Plan::new(WEB);
    let variables = [
        ("CONSUL_CACERT", "consul-agent-ca.pem"),
        ("CONSUL_CLIENT_CERT", "client.pem"),
        ("CONSUL_CLIENT_KEY", "client-key.pem"),
    ];
    let file = |name: &str| folder.path().join(name).display().to_string();
    let variables = variables.map(|(name, value)| (name.to_owned(), file(value)));
    plan.environment = variables.to_vec();
    let address = "https://127.0.0.1:8501".to_owned();
    plan.environment
        .push(("CONSUL_HTTP_ADDR".to_owned(), address));
    let world = World::around(sandbox, consul, plan, |_, _, _| {});
    world.await_source("a stranger is refused", is_stale);
    put(folder.path());
    world.await_source("the new certificate is taken", is_current);
    world.register(&registration("a", addresses::POD_A, "passing"));
    world.await_pods(&["pod-a"]);
}
