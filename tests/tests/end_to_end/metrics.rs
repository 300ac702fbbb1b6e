//! The metrics of the real agent, and their use in documents, dashboards and alerts.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write as _,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::Value;
use shunt_tests::{HttpAnswer, SocketPath, Transport, http_get};
use tempfile::NamedTempFile;

use crate::{host_world::HostWorld, http::ASKED, service::Service, world::World};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A metric: its type, and the labels of its series, if it has any series.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Metric {
    kind: String,
    labels: Option<BTreeSet<String>>,
}

/// The metrics of a text in Prometheus' format, by name.
fn metrics(text: &str) -> BTreeMap<String, Metric> {
    let mut metrics = BTreeMap::new();
    let mut last = String::new();
    for line in text.lines() {
        if let Some(typed) = line.strip_prefix("# TYPE ") {
            let (name, kind) = typed.split_once(' ').unwrap();
            name.clone_into(&mut last);
            let metric = Metric {
                kind: kind.to_owned(),
                labels: None,
            };
            assert_eq!(metrics.insert(last.clone(), metric), None, "{name} twice");
        } else if !line.starts_with('#') {
            let (series, value) = line.rsplit_once(' ').unwrap();
            value.parse::<f64>().unwrap();
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            let stem = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|suffix| name.strip_suffix(suffix));
            assert!(name == last || stem == Some(&*last), "{line} after {last}");
            let labels = labels.strip_suffix('}').unwrap().split(',');
            let labels = labels.filter_map(|label| Some(label.split_once('=')?.0.to_owned()));
            let labels: BTreeSet<String> = labels.filter(|label| label != "le").collect();
            metrics.get_mut(&last).unwrap().labels = Some(labels);
        }
    }
    metrics
}

/// The value of a series, as it is written.
fn value(text: &str, series: &str) -> Option<f64> {
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
    value.parse().ok()
}

pub(crate) fn scrape(world: &World, headers: &[&str]) -> HttpAnswer {
    let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 10_249);
    let node = world.sandbox.node();
    node.enter(|| http_get(address, "/metrics", headers).unwrap())
}

/// A file with this text that no other user may read.
fn private_file(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

#[test]
fn every_metric_is_documented_as_it_is() {
    let (socket, state) = (SocketPath::new(), SocketPath::new());
    let place = format!("unix:{}", socket.path().display());
    let state = state.path().to_str().unwrap();
    let tokens = private_file(&format!("dc1 {}", "3f".repeat(32)));
    let tokens = tokens.path().to_str().unwrap();
    let local = ["--local-api", &place, "--local-state", state];
    let federation = [
        "--federation-datacenter",
        "dc1",
        "--federation-primary",
        "dc1",
        "--federation-listen",
        "127.0.0.1:8502",
        "--federation-token-file",
        tokens,
    ];
    let flags = [&ASKED[..], &local[..], &federation[..]].concat();
    let Some(world) = World::with_flags(&flags) else {
        return;
    };
    let answer = scrape(&world, &[]);
    let plain = "text/plain; version=0.0.4; charset=utf-8";
    assert_eq!(answer.header("content-type"), Some(plain));
    let there = metrics(&answer.body);
    let document = fs::read_to_string(workspace().join("docs/metrics.md")).unwrap();
    let rows = document.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| ")?.split('|').map(str::trim);
        let name = cells.next()?;
        let prefixes = ["kubeproxy_", "shunt_", "process_"];
        prefixes.iter().find(|prefix| name.starts_with(**prefix))?;
        let kind = cells.next()?.to_owned();
        let labels = cells.next()?.split(", ").filter(|label| !label.is_empty());
        let labels = Some(labels.map(str::to_owned).collect());
        Some((name.to_owned(), Metric { kind, labels }))
    });
    let documented: BTreeMap<String, Metric> = rows.collect();
    let names = |metrics: &BTreeMap<String, Metric>| -> BTreeSet<String> {
        metrics.keys().cloned().collect()
    };
    assert_eq!(names(&there), names(&documented));
    for (name, metric) in there {
        let documented = &documented[&name];
        assert_eq!(metric.kind, documented.kind, "{name}");
        if metric.labels.is_some() {
            assert_eq!(metric.labels, documented.labels, "{name}");
        }
    }
}

/// A file of `deploy` with rules for Prometheus.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    groups: Vec<Group>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    #[expect(dead_code, reason = "it has to be there")]
    name: String,
    rules: Vec<Rule>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    alert: String,
    expr: String,
    #[expect(dead_code, reason = "it may be there")]
    r#for: Option<String>,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

/// Every `expr` of the dashboard's panels, wherever it stands.
fn expressions(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if name == "expr" || name == "query" => {
                        found.push(text.clone());
                    }
                    value => expressions(value, found),
                }
            }
        }
        Value::Array(values) => {
            values.iter().for_each(|value| expressions(value, found));
        }
        _ => {}
    }
}

/// The metrics of ours that an expression names, by their names at their type.
fn named(expression: &str) -> impl Iterator<Item = &str> {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    expression.split(move |c| !part(c)).filter(|word| {
        ["kubeproxy_", "shunt_", "process_"]
            .iter()
            .any(|p| word.starts_with(p))
    })
}

#[test]
fn dashboards_and_alerts_name_metrics_that_are_there() {
    let Some(world) = World::with_flags(&ASKED) else {
        return;
    };
    let there = metrics(&scrape(&world, &[]).body);
    let read = |name: &str| fs::read_to_string(workspace().join("deploy").join(name)).unwrap();
    let rules: Rules = serde_saphyr::from_str(&read("alerts.yaml")).unwrap();
    let mut found = Vec::new();
    for Rule {
        alert,
        expr,
        labels,
        annotations,
        ..
    } in rules.groups.into_iter().flat_map(|group| group.rules)
    {
        let severity = &labels["severity"];
        assert!(
            ["warning", "critical"].contains(&&**severity),
            "{alert}: {severity}"
        );
        assert!(annotations.contains_key("summary"), "{alert}");
        found.push(expr);
    }
    let alerts = found.len();
    let dashboard: Value = serde_json::from_str(&read("grafana-dashboard.json")).unwrap();
    expressions(&dashboard, &mut found);
    assert!(
        alerts > 5 && found.len() > alerts + 20,
        "{alerts} of {}",
        found.len()
    );
    let mut missing = BTreeSet::new();
    for expression in &found {
        for name in named(expression) {
            let family = name.strip_suffix("_bucket").unwrap_or(name);
            if !there.contains_key(family) {
                missing.insert(format!("{name} in {expression}"));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn prometheus_gets_open_metrics() {
    let Some(world) = World::with_flags(&ASKED) else {
        return;
    };
    let open = scrape(
        &world,
        &["Accept: application/openmetrics-text;version=1.0.0,*/*;q=0.1"],
    );
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(open.header("content-type"), Some(kind));
    assert!(open.body.ends_with("# EOF\n"));
    assert!(open.body.contains("# TYPE shunt_events counter\n"));
    let plain = scrape(&world, &[]).body;
    assert!(plain.contains("# TYPE shunt_events_total counter\n"));
    assert!(!plain.contains("# EOF"));
}

#[test]
fn metrics_tell_what_has_happened() {
    let Some(mut world) = World::with_flags(&ASKED) else {
        return;
    };
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    world.add(&service);
    world.ask_from_pod(service.cluster_ip(), 3);
    drop(world.agent.apply("nonsense").unwrap());
    let text = scrape(&world, &[]).body;
    for (series, expected) in [
        ("shunt_synced", 1.0),
        ("shunt_event_loop_responsive", 1.0),
        ("shunt_node_eligible", 1.0),
        (
            r#"shunt_events_total{event="Resync",result="applied"}"#,
            1.0,
        ),
        (
            r#"shunt_events_total{event="AddService",result="applied"}"#,
            1.0,
        ),
        (
            r#"shunt_events_total{event="malformed",result="refused"}"#,
            1.0,
        ),
        ("shunt_events_queued", 0.0),
        (
            r#"shunt_event_duration_seconds_count{event="AddService"}"#,
            1.0,
        ),
        (
            r#"kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family="IPv4"}"#,
            2.0,
        ),
        (
            r#"kubeproxy_sync_full_proxy_rules_duration_seconds_count{ip_family="IPv6"}"#,
            1.0,
        ),
        ("shunt_connections_opened_total", 3.0),
        (r#"shunt_table_capacity{table="frontends_v4"}"#, 64.0),
        (r#"shunt_interfaces{state="failed"}"#, 0.0),
        ("shunt_listeners", 2.0),
        ("shunt_listeners_failing", 0.0),
    ] {
        assert_eq!(value(&text, series), Some(expected), "{series}\n{text}");
    }
    for series in [
        r#"shunt_packets_total{kind="request"}"#,
        r#"shunt_interfaces{state="attached"}"#,
        r#"shunt_frontends{ip_family="IPv4"}"#,
        r#"shunt_table_entries{table="slots_v4"}"#,
        "shunt_table_writes_total",
        "process_resident_memory_bytes",
        "process_open_fds",
        r#"kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv4"}"#,
    ] {
        let value = value(&text, series);
        assert!(
            value.is_some_and(|value| value > 0.0),
            "{series}: {value:?}\n{text}"
        );
    }
}

#[test]
fn socket_hooks_that_are_not_at_the_root_are_told() {
    let Some(host) = HostWorld::with_flags("host", &ASKED) else {
        return;
    };
    let text = scrape(&host.world, &[]).body;
    for (series, expected) in [
        ("shunt_socket_hooks_wanted", 1.0),
        ("shunt_socket_hooks_attached", 8.0),
        ("shunt_socket_hooks_at_root", 0.0),
    ] {
        assert_eq!(value(&text, series), Some(expected), "{series}\n{text}");
    }
}

#[test]
fn a_policy_that_finds_no_endpoint_here_is_counted() {
    let Some(mut world) = World::with_flags(&ASKED) else {
        return;
    };
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-d"));
    let mut event: Value = serde_json::from_str(&service.event("AddService")).unwrap();
    event["service"]["traffic_policy"] = "Local".into();
    world.apply(&event.to_string());
    let count = |policy: &str| {
        let name = "kubeproxy_sync_proxy_rules_no_local_endpoints_total";
        let series = format!("{name}{{ip_family=\"IPv4\",traffic_policy=\"{policy}\"}}");
        value(&scrape(&world, &[]).body, &series)
    };
    assert_eq!(
        [count("external"), count("internal")],
        [Some(1.0), Some(0.0)]
    );
}
