//! Pods are sent when there is nothing to translate.

use serde_json::{Value, json};
use shunt_model::RendererEvent;
use shunt_runtime::Consequences;

use super::world::{World, service, slice};
use crate::{
    engine::Change,
    objects::{
        custom::CustomKind,
        external_workload::{ExternalWorkload, Group, RawOwn},
        pod::Pod,
        server::Server,
    },
    options::LookupPods,
    watch::step::Step,
};

fn pod(name: &str, phase: &str) -> Pod {
    let pod = json!({
        "metadata": { "namespace": "default", "name": name },
        "status": { "phase": phase, "podIP": "10.1.1.3" },
    });
    serde_json::from_value(pod).unwrap()
}

fn applied(name: &str, phase: &str) -> Change {
    Change::Pod(Step::Applied(pod(name, phase)))
}

#[test]
fn the_first_event_does_not_wait_for_pods_and_has_those_that_are_there() {
    let mut world = World::new();
    world.engine.take(applied("early", "Running"));
    assert_eq!(world.events(), [""; 0]);
    world.list_nothing();
    assert_eq!(world.events(), ["Resync  {192.0.2.1, 192.0.2.9} early"]);
}

#[test]
fn a_pod_is_told_of_once_and_after_services() {
    let mut world = World::synced();
    world.engine.take(applied("web-1", "Running"));
    let web = service("web", "2026-01-01T00:00:00Z", json!({}));
    world.engine.take(Change::Service(web));
    world.engine.take(slice("web", "web-1", &["10.1.1.3"]));
    let expected = [
        "UpdateService default/web 10.1.1.3",
        "UpdateWorkloads +web-1",
    ];
    assert_eq!(world.events(), expected);
    world.engine.take(applied("web-1", "Running"));
    assert_eq!(world.events(), [""; 0], "it is the same");
    // It ends, and is listed as one that is not there.
    world.engine.take(applied("web-2", "Pending"));
    world.engine.take(applied("web-1", "Failed"));
    assert_eq!(world.events(), ["UpdateWorkloads +web-2 -web-1"]);
    let list = Step::listed(vec![pod("web-3", "Running")]);
    world.engine.take(Change::Pod(list));
    assert_eq!(world.events(), ["UpdateWorkloads +web-3 -web-2"]);
    world
        .engine
        .take(Change::Pod(Step::Deleted(pod("web-3", "Running"))));
    assert_eq!(world.events(), ["UpdateWorkloads -web-3"]);
}

#[test]
fn a_long_list_is_several_events() {
    let mut world = World::synced();
    let list = (0..600).map(|number| pod(&format!("pod-{number}"), "Running"));
    world.engine.take(Change::Pod(Step::listed(list.collect())));
    let events = world.events();
    let counts: Vec<_> = events
        .iter()
        .map(|event| event.matches('+').count())
        .collect();
    assert_eq!(counts, [256, 256, 88]);
}

#[test]
fn pods_that_cannot_be_had_keep_nothing_waiting() {
    let mut world = World::synced();
    world.engine.take(Change::Pod(Step::Absent("403".into())));
    let web = service("web", "2026-01-01T00:00:00Z", json!({}));
    world.engine.take(Change::Service(web));
    assert_eq!(world.events().len(), 1);
}

fn machine(name: &str) -> ExternalWorkload {
    let machine = json!({
        "metadata": { "namespace": "default", "name": name },
        "spec": { "workloadIPs": [{ "ip": "203.0.113.1" }], "ports": [{ "port": 80 }] },
    });
    serde_json::from_value::<RawOwn>(machine).unwrap().into()
}

#[test]
fn machines_are_told_of_as_pods_are_and_nothing_waits_for_them() {
    let mut world = World::with(|options| options.lookup_pods = LookupPods::All);
    world.list_nothing();
    world.define(&[CustomKind::ExternalWorkload]);
    // They are defined, and not listed yet.
    assert_eq!(world.events(), ["Resync  {192.0.2.1, 192.0.2.9}"]);
    let of = |step| Change::Machine(Group::Shunt, step);
    world.engine.take(of(Step::listed(vec![machine("vm")])));
    world.engine.take(applied("web-1", "Running"));
    assert_eq!(world.events(), ["UpdateWorkloads +web-1 +vm"]);
    // A list of pods has no effect on machines, nor the other way round.
    world.engine.take(Change::Pod(Step::listed(vec![])));
    assert_eq!(world.events(), ["UpdateWorkloads -web-1"]);
    world.engine.take(applied("web-1", "Running"));
    world.engine.take(of(Step::listed(vec![])));
    assert_eq!(world.events(), ["UpdateWorkloads +web-1 -vm"]);
    // Their definition goes, and they with it.
    world.engine.take(of(Step::Applied(machine("vm"))));
    assert_eq!(world.events(), ["UpdateWorkloads +vm"]);
    world.define(&[]);
    assert_eq!(world.events(), ["UpdateWorkloads -vm"]);
    world.engine.take(of(Step::Applied(machine("late"))));
    assert_eq!(world.events(), [""; 0], "it is not defined any more");
}

/// A pod with this label, which declares a port by name.
fn labelled(name: &str, app: &str) -> Change {
    let pod = json!({
        "metadata": { "namespace": "default", "name": name, "labels": { "app": app } },
        "spec": { "containers": [{ "ports": [{ "name": "db", "containerPort": 5432 }] }] },
        "status": { "phase": "Running", "podIP": "10.1.1.3" },
    });
    Change::Pod(Step::Applied(serde_json::from_value(pod).unwrap()))
}

fn server(namespace: &str, name: &str, spec: impl Into<Value>) -> Server {
    let metadata = json!({ "namespace": namespace, "name": name });
    let spec: Value = spec.into();
    serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap()
}

/// The ports of each workload of the next event that are opaque by Servers.
fn opaque(world: &mut World) -> Vec<String> {
    let mut shown = Vec::new();
    while let Some(work) = world.engine.next() {
        if let RendererEvent::UpdateWorkloads(update) = &work.event {
            shown.extend(update.workloads.iter().map(|workload| {
                let ports = workload.policy_opaque_ports.iter();
                let ports: Vec<_> = ports.map(ToString::to_string).collect();
                format!("{} {}", workload.id.name, ports.join(","))
            }));
        }
        world.engine.done(work.about, Ok(Consequences::default()));
    }
    shown
}

#[test]
fn servers_make_ports_of_the_workloads_opaque_that_they_select() {
    let mut world = World::with(|options| options.lookup_pods = LookupPods::All);
    world.list_nothing();
    world.define(&[CustomKind::Server, CustomKind::ExternalWorkload]);
    opaque(&mut world);
    world.engine.take(labelled("db-0", "db"));
    world.engine.take(labelled("web-1", "web"));
    let vm = Change::Machine(Group::Shunt, Step::Applied(machine("vm")));
    world.engine.take(vm);
    assert_eq!(opaque(&mut world), ["db-0 ", "web-1 ", "vm "]);
    let of_app = |app: &str, port: Value| {
        json!({
            "podSelector": { "matchLabels": { "app": app } },
            "port": port, "proxyProtocol": "opaque",
        })
    };
    for (number, (applied, expected)) in [
        (
            server("default", "a", of_app("db", json!("db"))),
            &["db-0 5432"][..],
        ),
        // The same again, another namespace, another protocol, other labels, another name.
        (server("default", "a", of_app("db", json!("db"))), &[]),
        (server("other", "a", of_app("db", json!(1))), &[]),
        (
            server(
                "default",
                "b",
                json!({ "podSelector": {}, "port": 1, "proxyProtocol": "HTTP/1" }),
            ),
            &[],
        ),
        (server("default", "c", of_app("none", json!(1))), &[]),
        (server("default", "d", of_app("web", json!("none"))), &[]),
        // All pods, and the machines.
        (
            server(
                "default",
                "e",
                json!({ "podSelector": {}, "port": 9, "proxyProtocol": "opaque" }),
            ),
            &["db-0 9,5432", "web-1 9"],
        ),
        (
            server(
                "default",
                "f",
                json!({
                    "externalWorkloadSelector": { "matchExpressions": [
                        { "key": "app", "operator": "DoesNotExist" },
                    ] },
                    "port": 8, "proxyProtocol": "opaque",
                }),
            ),
            &["vm 8"],
        ),
        // One that is not opaque any more.
        (
            server("default", "e", json!({ "podSelector": {}, "port": 9 })),
            &["db-0 5432", "web-1 "],
        ),
    ]
    .into_iter()
    .enumerate()
    {
        world.engine.take(Change::Server(Step::Applied(applied)));
        assert_eq!(opaque(&mut world), expected, "{number}");
    }
    // A pod that comes later has its ports at once, and the labels of a pod may change.
    world.engine.take(labelled("db-1", "db"));
    world.engine.take(labelled("db-0", "web"));
    assert_eq!(opaque(&mut world), ["db-0 ", "db-1 5432"]);
    let gone = server("default", "a", json!(null));
    world.engine.take(Change::Server(Step::Deleted(gone)));
    assert_eq!(opaque(&mut world), ["db-1 "]);
    world.define(&[CustomKind::ExternalWorkload]);
    assert_eq!(opaque(&mut world), ["vm "], "no Server is defined any more");
}

#[test]
fn machines_are_not_followed_unless_all_is_to_be_known() {
    let mut world = World::with(|options| options.lookup_pods = LookupPods::Node);
    world.list_nothing();
    world.define(&[CustomKind::ExternalWorkload]);
    assert_eq!(world.engine.defined().count(), 0);
}
