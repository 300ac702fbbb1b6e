//! What the renderer is told, for what the watches tell.

mod notices;

use std::{
    net::IpAddr,
    sync::Arc,
    time::{Duration, SystemTime},
};

use serde_json::{Value, json};
use shunt_model::{RendererEvent, Snapshot};
use tokio::sync::mpsc::Receiver;

use super::{
    engine::{About, Change, Engine, Work},
    node_ports::NodePortAddresses,
    notices::{notice::Notice, outbox::Outbox},
    watch::step::Step,
};
use crate::runtime::{
    circumstances::{Circumstances, Trigger},
    cluster_state::{ClusterMonitor, ClusterState},
    health_checks::{HealthCheck, HealthCheckChange},
    ip_family::IpFamily,
    reports::Reports,
};

/// An engine on the node `here`.
struct World {
    engine: Engine,
    monitor: ClusterMonitor,
    reports: Arc<Reports>,
    /// What came with the last event.
    circumstances: Circumstances,
    /// What users are told.
    notices: Receiver<Notice>,
}

fn service(name: &str, created: &str, spec: Value) -> Step<super::Service> {
    let mut service = json!({
        "metadata": { "namespace": "default", "name": name, "uid": name, "creationTimestamp": created },
        "spec": { "clusterIP": "10.96.0.1", "ports": [{ "name": "http", "port": 80, "nodePort": 30080 }] },
    });
    let Value::Object(spec) = spec else {
        panic!("a spec has fields: {spec}");
    };
    for (key, value) in spec {
        service["spec"][&key] = value;
    }
    Step::Applied(serde_json::from_value(service).unwrap())
}

fn slice_of(
    service: &str,
    name: &str,
    addresses: &[&str],
    annotations: Value,
) -> super::EndpointSlice {
    let endpoints: Vec<Value> = addresses
        .iter()
        .map(|ip| json!({ "addresses": [ip] }))
        .collect();
    let mut slice = json!({
        "metadata": {
            "namespace": "default", "name": name,
            "labels": { "kubernetes.io/service-name": service },
        },
        "addressType": "IPv4",
        "ports": [{ "name": "http", "port": 8080 }],
        "endpoints": endpoints,
    });
    slice["metadata"]["annotations"] = annotations;
    serde_json::from_value(slice).unwrap()
}

fn slice(service: &str, name: &str, addresses: &[&str]) -> Change {
    Change::EndpointSlice(Step::Applied(slice_of(service, name, addresses, json!({}))))
}

fn node(name: &str, zone: &str, address: &str) -> Step<super::Node> {
    let node = json!({
        "metadata": { "name": name, "labels": { "topology.kubernetes.io/zone": zone } },
        "status": { "addresses": [{ "type": "InternalIP", "address": address }] },
    });
    Step::Applied(serde_json::from_value(node).unwrap())
}

/// An event in a word, with the endpoints of services.
fn word(event: &RendererEvent) -> String {
    let subject = event.subject();
    match event {
        RendererEvent::UpdateService(service) => {
            let endpoints = service.ports.iter().flat_map(|port| &port.endpoints);
            let endpoints: Vec<_> = endpoints.map(|endpoint| endpoint.ip.to_string()).collect();
            format!("{subject} {}", endpoints.join(" "))
                .trim_end()
                .to_owned()
        }
        RendererEvent::Resync(Snapshot {
            services, node_ips, ..
        }) => {
            let services: Vec<_> = services
                .iter()
                .map(|service| service.id.to_string())
                .collect();
            format!("{subject} {} {node_ips:?}", services.join(" "))
        }
        RendererEvent::UpdateNodePortServices(update) => format!("{subject} {:?}", update.node_ips),
        _ => subject,
    }
}

impl World {
    fn new() -> Self {
        let monitor = ClusterMonitor::new("a server".into(), "here".into());
        let reports = Arc::<Reports>::default();
        let (outbox, notices) = Outbox::new(Arc::clone(&reports));
        let mut engine = Engine::new(
            "here",
            NodePortAddresses::Primary,
            monitor.clone(),
            Arc::clone(&reports),
            outbox,
        );
        let host: [IpAddr; 2] = [[192, 0, 2, 1].into(), [192, 0, 2, 9].into()];
        engine.set_host_addresses(host.into());
        Self {
            engine,
            monitor,
            reports,
            circumstances: Circumstances::default(),
            notices,
        }
    }

    /// A world whose first event took effect.
    fn synced() -> Self {
        let mut world = Self::new();
        world.list_nothing();
        world
            .engine
            .take(Change::Node(node("here", "a", "192.0.2.1")));
        assert_eq!(world.events().len(), 1);
        world
    }

    fn list_nothing(&mut self) {
        self.engine.take(Change::Service(Step::Listed(Vec::new())));
        self.engine
            .take(Change::EndpointSlice(Step::Listed(Vec::new())));
        self.engine
            .take(Change::ServiceCidr(Step::Absent("404".into())));
        self.engine.take(Change::Node(Step::Listed(Vec::new())));
    }

    /// What the renderer is told now; each event takes effect.
    fn events(&mut self) -> Vec<String> {
        let mut words = Vec::new();
        while let Some(work) = self.engine.next() {
            let Work {
                event,
                circumstances,
                about,
            } = work;
            words.push(word(&event));
            self.circumstances = circumstances;
            self.engine.done(about, Ok(Vec::new()));
        }
        words
    }

    fn state(&self) -> ClusterState {
        self.monitor.snapshot()
    }
}

#[test]
fn nothing_is_told_before_all_first_lists_are_there() {
    let mut world = World::new();
    world.engine.take(Change::Service(service(
        "late",
        "2026-01-02T00:00:00Z",
        json!({}),
    )));
    world.engine.take(Change::Service(service(
        "early",
        "2026-01-01T00:00:00Z",
        json!({}),
    )));
    for change in [
        Change::EndpointSlice(Step::Listed(Vec::new())),
        Change::Node(Step::Listed(Vec::new())),
        Change::ServiceCidr(Step::Lost("away".into())),
        Change::Service(Step::Lost("away".into())),
    ] {
        world.engine.take(change);
        assert_eq!(world.events(), [] as [&str; 0]);
    }
    assert!(!world.state().connected);
    let list = ["late", "early"].map(|name| {
        let created = if name == "late" {
            "2026-01-02T00:00:00Z"
        } else {
            "2026-01-01T00:00:00Z"
        };
        match service(name, created, json!({})) {
            Step::Applied(service) => service,
            other => panic!("{other:?}"),
        }
    });
    world
        .engine
        .take(Change::Service(Step::Listed(list.into())));
    assert_eq!(
        world.events(),
        [] as [&str; 0],
        "the ranges are not there yet"
    );
    world
        .engine
        .take(Change::ServiceCidr(Step::Absent("404".into())));
    // The older first, so that it has what both want. A node of which nothing is known is open.
    let expected = ["Resync default/early default/late {192.0.2.1, 192.0.2.9}"];
    assert_eq!(world.events(), expected);
    let state = world.state();
    assert!(state.connected && state.synced && !state.node.found);
    assert_eq!((state.services, state.service_cidrs), (2, None));
}

#[test]
fn a_service_and_its_slices_come_in_any_order() {
    let mut world = World::synced();
    world.engine.take(slice("web", "web-1", &["10.0.0.1"]));
    assert_eq!(world.events(), [] as [&str; 0], "a slice alone is nothing");
    world.engine.take(Change::Service(service(
        "web",
        "2026-01-01T00:00:00Z",
        json!({}),
    )));
    assert_eq!(world.events(), ["UpdateService default/web 10.0.0.1"]);
    world.engine.take(slice("web", "web-2", &["10.0.0.2"]));
    assert_eq!(
        world.events(),
        ["UpdateService default/web 10.0.0.1 10.0.0.2"]
    );
    // A slice that goes over to another service.
    world.engine.take(slice("other", "web-1", &["10.0.0.1"]));
    assert_eq!(world.events(), ["UpdateService default/web 10.0.0.2"]);
    let Step::Applied(web) = service("web", "2026-01-01T00:00:00Z", json!({})) else {
        unreachable!("it was applied");
    };
    world.engine.take(Change::Service(Step::Deleted(web)));
    assert_eq!(world.events(), ["DeleteService default/web"]);
    assert_eq!(
        (world.state().services, world.state().endpoint_slices),
        (0, 2)
    );
}

#[test]
fn what_changes_while_an_event_is_on_its_way_is_one_event() {
    let mut world = World::synced();
    world.engine.take(Change::Service(service(
        "web",
        "2026-01-01T00:00:00Z",
        json!({}),
    )));
    let Work { event, about, .. } = world.engine.next().unwrap();
    assert_eq!(word(&event), "UpdateService default/web");
    for last in 1..=9 {
        world
            .engine
            .take(slice("web", "web-1", &[&format!("10.0.0.{last}")]));
    }
    assert_eq!(world.state().pending, 1);
    assert!(world.state().pending_since.is_some());
    world.engine.done(about, Ok(Vec::new()));
    assert_eq!(world.events(), ["UpdateService default/web 10.0.0.9"]);
    assert_eq!(
        (world.state().pending, world.state().pending_since),
        (0, None)
    );
}

#[test]
fn what_changes_nothing_is_not_told() {
    let mut world = World::synced();
    let web = |spec| Change::Service(service("web", "2026-01-01T00:00:00Z", spec));
    world.engine.take(web(json!({})));
    world
        .engine
        .take(slice("web", "web-1", &["10.0.0.1", "10.0.0.2"]));
    assert_eq!(world.events().len(), 1);
    world
        .engine
        .take(web(json!({ "selector": { "app": "x" } })));
    world
        .engine
        .take(slice("web", "web-1", &["10.0.0.2", "10.0.0.1"]));
    world.engine.take(slice("web", "web-2", &["10.0.0.1"]));
    world
        .engine
        .take(Change::Node(node("here", "b", "192.0.2.1")));
    world.engine.take(Change::Service(Step::Alive));
    assert_eq!(world.events(), [] as [&str; 0]);
    // There and away again.
    world.engine.take(slice("web", "web-2", &["10.0.0.3"]));
    world.engine.take(slice("web", "web-2", &["10.0.0.1"]));
    assert_eq!(world.events(), [] as [&str; 0]);
}

#[test]
fn a_list_anew_is_told_as_what_differs() {
    let mut world = World::synced();
    for name in ["a", "b", "c"] {
        world.engine.take(Change::Service(service(
            name,
            "2026-01-01T00:00:00Z",
            json!({}),
        )));
    }
    assert_eq!(world.events().len(), 3);
    world
        .engine
        .take(Change::Service(Step::Lost("cut off".into())));
    assert_eq!(
        world.events(),
        [] as [&str; 0],
        "a server that is away changes nothing"
    );
    let state = world.state();
    assert_eq!(
        (state.connected, state.trouble.as_deref()),
        (false, Some("cut off"))
    );
    let list = [
        ("late", "2026-01-03T00:00:00Z", json!({})),
        ("a", "2026-01-01T00:00:00Z", json!({})),
        (
            "b",
            "2026-01-01T00:00:00Z",
            json!({ "clusterIP": "10.96.0.2" }),
        ),
        ("early", "2026-01-02T00:00:00Z", json!({})),
    ];
    let list = list.map(|(name, created, spec)| match service(name, created, spec) {
        Step::Applied(service) => service,
        other => panic!("{other:?}"),
    });
    world
        .engine
        .take(Change::Service(Step::Listed(list.into())));
    let expected = [
        "DeleteService default/c",
        "UpdateService default/b",
        "UpdateService default/early",
        "UpdateService default/late",
    ];
    assert_eq!(world.events(), expected);
    assert!(world.state().connected);
}

#[test]
fn another_zone_of_this_node_chooses_other_endpoints() {
    let mut world = World::synced();
    world.engine.take(Change::Service(service(
        "web",
        "2026-01-01T00:00:00Z",
        json!({}),
    )));
    let hinted = serde_json::from_value(json!({
        "metadata": {
            "namespace": "default", "name": "web-1",
            "labels": { "kubernetes.io/service-name": "web" },
        },
        "addressType": "IPv4",
        "ports": [{ "name": "http", "port": 8080 }],
        "endpoints": [
            { "addresses": ["10.0.0.1"], "hints": { "forZones": [{ "name": "a" }] } },
            { "addresses": ["10.0.0.2"], "hints": { "forZones": [{ "name": "b" }] } },
        ],
    }));
    world
        .engine
        .take(Change::EndpointSlice(Step::Applied(hinted.unwrap())));
    assert_eq!(world.events().len(), 1);
    world
        .engine
        .take(Change::Node(node("there", "b", "192.0.2.2")));
    assert_eq!(
        world.events(),
        ["UpdateNodePortServices {192.0.2.1, 192.0.2.2}"]
    );
    world
        .engine
        .take(Change::Node(node("here", "b", "192.0.2.1")));
    assert_eq!(
        world.events(),
        ["UpdateService default/web 10.0.0.1 10.0.0.2"]
    );
}

#[test]
fn node_ports_follow_the_node_and_its_interfaces() {
    let mut world = World::synced();
    world
        .engine
        .take(Change::Node(node("here", "a", "192.0.2.9")));
    assert_eq!(world.events(), ["UpdateNodePortServices {192.0.2.9}"]);
    world
        .engine
        .set_host_addresses([[192, 0, 2, 1].into()].into());
    assert_eq!(world.events(), ["UpdateNodePortServices {}"]);
    world
        .engine
        .set_host_addresses([[192, 0, 2, 9].into()].into());
    assert_eq!(world.events(), ["UpdateNodePortServices {192.0.2.9}"]);
    // A Node that is removed takes nothing away.
    let Step::Applied(here) = node("here", "a", "192.0.2.9") else {
        unreachable!("it was applied");
    };
    world.engine.take(Change::Node(Step::Deleted(here)));
    assert_eq!(world.events(), [] as [&str; 0]);
    assert!(!world.state().node.found);
}

#[test]
fn an_event_that_fails_is_tried_again() {
    let mut world = World::synced();
    world.engine.take(Change::Service(service(
        "web",
        "2026-01-01T00:00:00Z",
        json!({}),
    )));
    let Work { about, .. } = world.engine.next().unwrap();
    world.engine.done(about, Err("the table is full".into()));
    assert_eq!(world.events(), [] as [&str; 0]);
    let state = world.state();
    assert_eq!(state.pending, 1);
    assert_eq!(
        state.untranslated["default/web"],
        ["its last change: the table is full"]
    );
    world.engine.retry();
    assert_eq!(world.events(), ["UpdateService default/web"]);
    assert_eq!(world.state().untranslated.len(), 0);
    // What the renderer has already is told again only if it may have something else.
    world.engine.take(slice("web", "web-1", &["10.0.0.1"]));
    let Work { about, .. } = world.engine.next().unwrap();
    world.engine.done(about, Err("the table is full".into()));
    world.engine.take(slice("web", "web-1", &[]));
    assert_eq!(world.events(), ["UpdateService default/web"]);
}

#[test]
fn a_resync_that_fails_is_tried_again_with_what_is_known_then() {
    let mut world = World::new();
    world.list_nothing();
    let Work { about, .. } = world.engine.next().unwrap();
    assert!(matches!(about, About::All { .. }));
    world.engine.take(Change::Service(service(
        "web",
        "2026-01-01T00:00:00Z",
        json!({}),
    )));
    world.engine.done(about, Err("no room".into()));
    assert_eq!(
        world.events(),
        ["Resync default/web {192.0.2.1, 192.0.2.9}"]
    );
}

#[test]
fn an_event_says_when_that_happened_which_led_to_it() {
    let mut world = World::synced();
    let web = service("web", "2026-01-01T00:00:00Z", json!({}));
    world.engine.take(Change::Service(web));
    assert_eq!(world.events().len(), 1);
    let at = |time: SystemTime| {
        let time = humantime::format_rfc3339_nanos(time).to_string();
        json!({ "endpoints.kubernetes.io/last-change-trigger-time": time })
    };
    let old = SystemTime::now() - Duration::from_hours(1);
    let new = SystemTime::now();
    let triggers = [Trigger {
        family: IpFamily::V4,
        at: new,
    }];
    for (addresses, annotations, expected) in [
        (&["10.0.0.1"][..], json!({}), &[][..]),
        (&["10.0.0.2"], at(old), &[]),
        (&["10.0.0.3"], at(new), &triggers),
        // The annotation is that of an earlier change.
        (&["10.0.0.4"], at(new), &[]),
    ] {
        let slice = slice_of("web", "web-1", addresses, annotations);
        world
            .engine
            .take(Change::EndpointSlice(Step::Applied(slice)));
        assert_eq!(world.events().len(), 1, "{addresses:?}");
        assert_eq!(world.circumstances.triggers, expected, "{addresses:?}");
    }
}

#[test]
fn health_checks_come_with_the_event_of_the_same_state() {
    let mut world = World::synced();
    let balanced = |port: u16| {
        let spec = json!({
            "type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": port,
        });
        Change::Service(service("web", "2026-01-01T00:00:00Z", spec))
    };
    let check = |port: u16, local_endpoints| {
        let check = HealthCheck {
            port: port.try_into().unwrap(),
            local_endpoints,
        };
        HealthCheckChange::Of(shunt_model::ServiceId::new("default", "web"), Some(check))
    };
    world.engine.take(balanced(32_000));
    assert_eq!(world.events().len(), 1);
    assert_eq!(world.circumstances.health_checks, check(32_000, 0));
    let mut pods = slice_of("web", "web-1", &["10.0.0.1"], json!({}));
    pods.endpoints[0].node = Some("here".into());
    world
        .engine
        .take(Change::EndpointSlice(Step::Applied(pods)));
    assert_eq!(world.events().len(), 1);
    assert_eq!(world.circumstances.health_checks, check(32_000, 1));
    // Nothing is translated otherwise, and yet it is told.
    world.engine.take(balanced(32_001));
    assert_eq!(world.events().len(), 1);
    assert_eq!(world.circumstances.health_checks, check(32_001, 1));
    let addresses = world.reports.health_checks().borrow().addresses.clone();
    assert_eq!(addresses, [[192, 0, 2, 1].into()].into());
}

#[test]
fn the_ranges_of_cluster_ips_are_united() {
    let mut world = World::synced();
    let cidr = |name: &str, cidrs: &[&str]| {
        let value = json!({ "metadata": { "name": name }, "spec": { "cidrs": cidrs } });
        Change::ServiceCidr(Step::Applied(serde_json::from_value(value).unwrap()))
    };
    let known = |world: &World| -> Vec<String> {
        let known = world.state().service_cidrs.unwrap();
        known.iter().map(ToString::to_string).collect()
    };
    world
        .engine
        .take(cidr("one", &["10.96.0.0/16", "fd00:96::/112"]));
    world
        .engine
        .take(cidr("two", &["10.96.0.0/16", "10.97.0.0/16"]));
    assert_eq!(
        known(&world),
        ["10.96.0.0/16", "10.97.0.0/16", "fd00:96::/112"]
    );
    let value = json!({ "metadata": { "name": "one" }, "spec": {} });
    let one = serde_json::from_value(value).unwrap();
    world.engine.take(Change::ServiceCidr(Step::Deleted(one)));
    assert_eq!(
        known(&world),
        ["10.96.0.0/16", "10.97.0.0/16"],
        "the other still has it"
    );
    assert_eq!(world.events(), ["UpdateServiceCidrs"]);
    assert_eq!(world.events(), [] as [&str; 0]);
}
