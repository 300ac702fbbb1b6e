//! Reads of the registry as a catalog, beside the real Consul's answers and by its own commands.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    os::unix::net::UnixStream,
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};
use shunt_tests::{
    Consul, ConsulSettings, HttpAnswer, addresses, consul_binary, http_ask, wait_until,
};

use super::{
    consul::run,
    place::{Place, SOON},
};

/// Paths of reads in Consul's form.
const READS: [&str; 14] = [
    "/v1/health/service/web",
    "/v1/health/service/web?passing",
    "/v1/health/service/nothing",
    "/v1/health/checks/web",
    "/v1/health/state/any",
    "/v1/health/state/critical",
    "/v1/catalog/services",
    "/v1/catalog/service/web",
    "/v1/catalog/service/web-sidecar-proxy",
    "/v1/catalog/service/nothing",
    "/v1/catalog/nodes",
    "/v1/catalog/datacenters",
    "/v1/status/leader",
    "/v1/agent/members",
];

/// Objects whose names are anything's.
const FREE: [&str; 3] = ["Meta", "NodeMeta", "Tags"];

/// Returns the services that all have that are read here.
fn services() -> [Value; 2] {
    [
        json!({
            "Name": "web", "ID": "web1", "Port": 80, "Tags": ["v1"], "Meta": { "k": "v" },
            "Address": "10.1.2.3", "Check": { "TTL": "1h" }, "Connect": { "SidecarService": {} },
        }),
        json!({ "Name": "db", "Port": 5432 }),
    ]
}

/// A command that runs until this is dropped.
struct Watch(Child);

impl Drop for Watch {
    fn drop(&mut self) {
        let Self(child) = self;
        drop(child.kill());
        drop(child.wait());
    }
}

/// The paths of all fields of an answer, with the kinds of what is there.
fn shape(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "a switch",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    let field = path.rsplit('.').next().unwrap_or_default();
    match value {
        // Consul has none of an empty one, where it is not written.
        _ if FREE.contains(&field) => {}
        Value::Array(items) => {
            found.insert(format!("{path} {kind}"));
            items
                .iter()
                .for_each(|item| shape(item, &format!("{path}[]"), found));
        }
        Value::Object(fields) => {
            found.insert(format!("{path} {kind}"));
            for (name, value) in fields {
                shape(value, &format!("{path}.{name}"), found);
            }
        }
        _ => {
            found.insert(format!("{path} {kind}"));
        }
    }
}

fn shape_of(body: &str, path: &str) -> BTreeSet<String> {
    let mut value: Value =
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{path}: {error}: {body}"));
    // Consul is a service of its own.
    if let Some(services) = value.get_mut("Services").and_then(Value::as_object_mut) {
        services.remove("consul");
    } else if path == "/v1/catalog/services" {
        value.as_object_mut().unwrap().remove("consul");
    }
    let mut found = BTreeSet::new();
    shape(&value, "", &mut found);
    found
}

#[test]
fn reads_have_the_form_of_consuls_own() {
    let (Some(consul), Some(place)) = (consul_binary(), Place::new()) else {
        return;
    };
    let node = place.sandbox.node();
    let consul = Consul::start(&consul, node, ConsulSettings::new(addresses::NODE)).unwrap();
    for service in services() {
        consul
            .put(node, "/v1/agent/service/register", &service)
            .unwrap();
        place.kept.register(&service);
    }
    let is_there = |path: &str| {
        let answer = consul.ask(node, "GET", path, "").ok()?;
        answer.body.contains("web1").then_some(())
    };
    for path in ["/v1/catalog/service/web", "/v1/health/state/any"] {
        wait_until("Consul's catalog", SOON, || is_there(path)).unwrap();
    }
    let name = place.kept.get("self")["Member"]["Name"].clone();
    let name = name.as_str().unwrap();
    let of_node = ["/v1/health/node/", "/v1/catalog/node/"];
    let of_node = of_node.map(|path| (format!("{path}n1"), format!("{path}{name}")));
    let reads = READS.map(|path| (path.to_owned(), path.to_owned()));
    for (theirs, ours) in reads.into_iter().chain(of_node) {
        let expected = consul.ask(node, "GET", &theirs, "").unwrap();
        let answer = place.kept.ask("GET", &ours, "");
        assert_eq!(answer.status, expected.status, "{ours}: {}", answer.body);
        assert_eq!(
            shape_of(&answer.body, &ours),
            shape_of(&expected.body, &theirs),
            "{ours}: {}\n{}",
            answer.body,
            expected.body
        );
        for header in [
            "x-consul-index",
            "x-consul-knownleader",
            "x-consul-lastcontact",
        ] {
            let has = |answer: &HttpAnswer| answer.header(header).is_some();
            assert_eq!(has(&answer), has(&expected), "{ours}: {header}");
        }
    }
    for path in [
        "/v1/health/service/",
        "/v1/health/state/",
        "/v1/health/service/web?index=x",
        "/v1/health/service/web?passing=x",
        "/v1/health/service/web?index=1&wait=x",
        "/v1/catalog/services?dc=other",
    ] {
        let expected = consul.ask(node, "GET", path, "").unwrap();
        let answer = place.kept.ask("GET", path, "");
        let said = |body: &str| body.trim().to_owned();
        assert_eq!(
            (answer.status, said(&answer.body)),
            (expected.status, said(&expected.body)),
            "{path}"
        );
    }
}

#[test]
fn consuls_own_commands_read_the_catalog() {
    let (Some(consul), Some(place)) = (consul_binary(), Place::new()) else {
        return;
    };
    for service in services() {
        place.kept.register(&service);
    }
    let said = |arguments: &[&str]| {
        let (is_done, said) = run(&consul, &place, arguments);
        assert!(is_done, "{arguments:?}: {said}");
        said
    };
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(
        lines(&said(&["catalog", "services"])),
        ["db", "web", "web-sidecar-proxy"]
    );
    let nodes = said(&["catalog", "nodes", "-service=web"]);
    let address = addresses::NODE.to_string();
    assert!(nodes.contains(&address), "{nodes}");
    assert_eq!(said(&["catalog", "datacenters"]).trim(), "local");
    let members = said(&["members"]);
    assert!(
        members.contains(&address) && members.contains("alive"),
        "{members}"
    );
}

#[test]
fn consuls_watch_waits_and_follows_over_a_restart() {
    let (Some(consul), Some(place)) = (consul_binary(), Place::new()) else {
        return;
    };
    let [web, _] = services();
    place.kept.register(&web);
    let file = place.kept.definitions().with_extension("watched");
    let socket = format!("unix://{}", place.kept.socket().display());
    let watch = Command::new(&consul)
        .args(["watch", "-type=checks", "-service=web", "cat"])
        .env("CONSUL_HTTP_ADDR", socket)
        .stdin(Stdio::null())
        .stdout(File::create(&file).unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let watch = Watch(watch);
    let saw = |what: &str, times: usize| {
        let seen = wait_until(&format!("the watch sees {what}"), SOON, || {
            let text = fs::read_to_string(&file).ok()?;
            (text.matches(what).count() >= times).then_some(())
        });
        seen.unwrap();
    };
    saw("\"critical\"", 1);
    place.are_waiting(1);
    place.kept.put("check/pass/service:web1", &Value::Null);
    saw("\"passing\"", 1);
    place.are_waiting(1);
    // The next agent counts from another number, and its answers are followed, too.
    let place = place.killed_and_started();
    place.kept.put("check/fail/service:web1", &Value::Null);
    saw("\"critical\"", 2);
    place.are_waiting(1);
    drop(watch);
    place.are_waiting(0);
}

#[test]
fn pages_of_browsers_read_no_catalog() {
    let Some(place) = Place::new() else {
        return;
    };
    let page = ["Host: local", "Origin: http://evil.example"];
    for path in READS {
        let stream = UnixStream::connect(place.kept.socket()).unwrap();
        let answer = http_ask(stream, "GET", path, &page, "").unwrap();
        assert_eq!(answer.status, 403, "{path}");
        assert_eq!(place.kept.ask("PUT", path, "").status, 405, "{path}");
    }
}
