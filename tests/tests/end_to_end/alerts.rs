//! The alerts of `deploy/alerts.yaml`, evaluated by Prometheus' own tool over what real agents show.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::Command,
};

use shunt_tests::{PinDir, Sandbox, promtool_binary};

use crate::{
    http::ASKED,
    metrics::scrape,
    world::{SERVED, Unattended, World, resync},
};

/// Series as a scrape shows them, each with the values of half an hour in promtool's notation, a value in 30 s.
type Samples = BTreeMap<String, String>;

/// The length of a scenario.
const STEPS: u32 = 60;

fn rules() -> PathBuf {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/alerts.yaml");
    place.canonicalize().unwrap()
}

/// The names of all alerts.
fn alerts() -> BTreeSet<String> {
    let text = fs::read_to_string(rules()).unwrap();
    let names = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "));
    names.map(str::to_owned).collect()
}

/// Returns the samples of an agent that shows this all the time.
fn samples(scraped: &str) -> Samples {
    let lines = scraped.lines().filter(|line| !line.starts_with('#'));
    let mut samples: Samples = lines
        .map(|line| {
            let (series, value) = line.rsplit_once(' ').unwrap();
            (series.to_owned(), format!("{value}+0x{STEPS}"))
        })
        .collect();
    samples.insert("up".to_owned(), format!("1+0x{STEPS}"));
    samples
}

/// The samples of one scenario, and the alerts that are to fire after 25 minutes, and no others.
struct Scenario {
    name: String,
    samples: Samples,
    firing: BTreeSet<String>,
}

/// Puts the labels of a target to a series.
fn of_target(series: &str) -> String {
    let labels = "job=\"shunt\",instance=\"node-1\"";
    match series.split_once('{') {
        Some((name, rest)) => format!("{name}{{{labels},{rest}"),
        None => format!("{series}{{{labels}}}"),
    }
}

/// A text of YAML, in single quotes.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The scenarios as promtool reads them.
fn test_file(scenarios: &[Scenario]) -> String {
    let mut text = format!(
        "rule_files: [{}]\nevaluation_interval: 30s\ntests:\n",
        quoted(rules().to_str().unwrap())
    );
    for Scenario {
        name,
        samples,
        firing,
    } in scenarios
    {
        writeln!(text, "- name: {}", quoted(name)).unwrap();
        writeln!(text, "  interval: 30s\n  input_series:").unwrap();
        for (series, values) in samples {
            let series = quoted(&of_target(series));
            writeln!(text, "  - {{series: {series}, values: {}}}", quoted(values)).unwrap();
        }
        writeln!(text, "  promql_expr_test:\n  - eval_time: 25m").unwrap();
        let expression = r#"group by (alertname) (ALERTS{alertstate="firing"})"#;
        writeln!(text, "    expr: {}\n    exp_samples:", quoted(expression)).unwrap();
        for alert in firing {
            let labels = quoted(&format!("{{alertname=\"{alert}\"}}"));
            writeln!(text, "    - {{labels: {labels}, value: 1}}").unwrap();
        }
    }
    text
}

/// Fails, with the output of promtool, unless the alerts fire as they are to.
#[track_caller]
fn evaluate(promtool: &Path, scenarios: &[Scenario]) {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), test_file(scenarios)).unwrap();
    let mut command = Command::new(promtool);
    let output = command.args(["test", "rules"]).arg(file.path()).output();
    let output = output.unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

fn firing(alerts: &[&str]) -> BTreeSet<String> {
    alerts.iter().map(|alert| (*alert).to_owned()).collect()
}

/// Values that stay, and the alert that they make fire.
const STEADY: [(&str, &[(&str, u32)]); 12] = [
    ("ShuntDown", &[("up", 0)]),
    ("ShuntEventLoopStuck", &[("shunt_event_loop_responsive", 0)]),
    ("ShuntNotSynced", &[("shunt_synced", 0)]),
    (
        "ShuntSourceDisconnected",
        &[(r#"shunt_source_connected{source="kubernetes"}"#, 0)],
    ),
    ("ShuntServicesRefused", &[("shunt_services_refused", 2)]),
    ("ShuntRemovalHeld", &[("shunt_removal_held_seconds", 30)]),
    (
        "ShuntTableFillsUp",
        &[
            (r#"shunt_table_entries{table="slots_v4"}"#, 90),
            (r#"shunt_table_capacity{table="slots_v4"}"#, 100),
        ],
    ),
    (
        "ShuntInterfaceFailed",
        &[(r#"shunt_interfaces{state="failed"}"#, 1)],
    ),
    (
        "ShuntSocketHooksMissing",
        &[
            ("shunt_socket_hooks_wanted", 1),
            ("shunt_socket_hooks_attached", 0),
        ],
    ),
    (
        "ShuntSocketHooksNotAtRoot",
        &[
            ("shunt_socket_hooks_wanted", 1),
            ("shunt_socket_hooks_attached", 8),
            ("shunt_socket_hooks_at_root", 0),
        ],
    ),
    ("ShuntListenerFailing", &[("shunt_listeners_failing", 1)]),
    ("ShuntFrontendConflict", &[("shunt_frontend_conflicts", 1)]),
];

/// Values that rise, and the alert that they make fire.
fn rising() -> Vec<(&'static str, Vec<(&'static str, String)>)> {
    let rises = |by: u32| format!("0+{by}x{STEPS}");
    // Up to a value, from which another process begins anew.
    let ends = |values: &str| format!("0+0x40 {values} 0+0x20");
    // No change gets into the buckets before.
    let slow = [
        r#"kubeproxy_network_programming_duration_seconds_bucket{le="60.0",ip_family="IPv4"}"#,
        r#"kubeproxy_network_programming_duration_seconds_bucket{le="+Inf",ip_family="IPv4"}"#,
    ];
    let waits_v4 = r#"shunt_oldest_change_seconds{ip_family="IPv4"}"#;
    let waits_v6 = r#"shunt_oldest_change_seconds{ip_family="IPv6"}"#;
    let not_alive = r#"kubeproxy_proxy_livez_total{code="503"}"#;
    let refused = r#"shunt_events_total{event="AddService",result="refused"}"#;
    let dropped = r#"shunt_dropped_packets_total{reason="conntrack_full"}"#;
    vec![
        ("ShuntChangesLate", vec![(waits_v4, rises(30))]),
        // kubelet kills the agent after two minutes.
        ("ShuntChangesLate", vec![(waits_v6, ends("20 50 80 110"))]),
        ("ShuntNotAlive", vec![(not_alive, ends("0 1 3 6"))]),
        (
            "ShuntNetworkProgrammingSlow",
            slow.map(|series| (series, rises(1))).into(),
        ),
        ("ShuntEventsRefused", vec![(refused, rises(1))]),
        (
            "ShuntConnectionsGivenUp",
            vec![("shunt_conntrack_early_drops_total", rises(9))],
        ),
        ("ShuntConnectionsRefused", vec![(dropped, rises(9))]),
    ]
}

#[test]
fn each_alert_fires_for_its_fault_and_none_for_a_good_agent() {
    let Some(promtool) = promtool_binary() else {
        return;
    };
    let Some(world) = World::with_flags(&ASKED) else {
        return;
    };
    let good = samples(&scrape(&world, &[]).body);
    let mut scenarios = vec![Scenario {
        name: "a good agent".to_owned(),
        samples: good.clone(),
        firing: BTreeSet::new(),
    }];
    let mut covered = BTreeSet::new();
    let steady = STEADY.iter().map(|(alert, series)| {
        let stays = |&(series, value): &(_, u32)| (series, format!("{value}+0x{STEPS}"));
        (*alert, series.iter().map(stays).collect())
    });
    for (number, (alert, series)) in steady.chain(rising()).enumerate() {
        covered.insert(alert.to_owned());
        let mut samples = good.clone();
        for (series, values) in series {
            let known = samples.insert(series.to_owned(), values);
            // Agents of these tests follow no cluster.
            let is_shown = known.is_some() || alert == "ShuntSourceDisconnected";
            assert!(is_shown, "no agent shows {series}");
        }
        scenarios.push(Scenario {
            name: format!("fault {number}: {alert}"),
            samples,
            firing: firing(&[alert]),
        });
    }
    assert_eq!(covered, alerts(), "each alert has its fault");
    // A change that waits for less than a minute raises no alert, and neither are changes that come all the time.
    let mut busy = good;
    for (series, values) in [
        (r#"shunt_oldest_change_seconds{ip_family="IPv4"}"#, 45),
        ("shunt_events_queued", 9),
    ] {
        busy.insert(series.to_owned(), format!("{values}+0x{STEPS}"));
    }
    scenarios.push(Scenario {
        name: "a busy agent".to_owned(),
        samples: busy,
        firing: BTreeSet::new(),
    });
    scenarios.push(Scenario {
        name: "nothing is scraped".to_owned(),
        samples: Samples::new(),
        firing: firing(&["ShuntDown"]),
    });
    evaluate(&promtool, &scenarios);
}

#[test]
fn alerts_fire_for_an_agent_without_events_and_without_its_address() {
    let Some(promtool) = promtool_binary() else {
        return;
    };
    let Some(sandbox) = Sandbox::serving(SERVED) else {
        return;
    };
    let pins = PinDir::new();
    let holder = sandbox
        .node()
        .enter(|| TcpListener::bind("0.0.0.0:10256").unwrap());
    let mut world = Unattended { pins, sandbox }.start(&ASKED);
    let shown = |world: &World| samples(&scrape(world, &[]).body);
    let bad = Scenario {
        name: "no Resync, and no address".to_owned(),
        samples: shown(&world),
        firing: firing(&["ShuntListenerFailing", "ShuntNotSynced"]),
    };
    world.apply(&resync());
    let better = Scenario {
        name: "no address".to_owned(),
        samples: shown(&world),
        firing: firing(&["ShuntListenerFailing"]),
    };
    drop(holder);
    evaluate(&promtool, &[bad, better]);
}
