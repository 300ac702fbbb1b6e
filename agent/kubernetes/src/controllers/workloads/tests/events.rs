//! Services that an event concerns (linkerd's table of events), and the purpose of a tracker.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::world::{confirmed, desired, id, linkerds, service, web, workload};
use crate::{
    controllers::workloads::{packing::plan, slice::Slice, store::Store, write::Write},
    objects::external_workload::{ExternalWorkload, Group},
    watch::step::Step,
};

/// The Services `a/web` (app: web), `a/all` (everything), `a/other` (app: other), `a/none` (no selector), and
/// one in another namespace.
fn store() -> Store {
    let mut store = Store::new(false);
    let of = |namespace: &str, name: &str, selector: Value| {
        service(json!({
            "metadata": { "namespace": namespace, "name": name, "uid": name },
            "spec": { "selector": selector, "clusterIP": "10.96.0.1" },
        }))
    };
    let list = vec![
        web(&[]),
        of("a", "all", json!({})),
        of("a", "other", json!({ "app": "other" })),
        of("a", "none", json!(null)),
        of("b", "web", json!({ "app": "web" })),
        of("kube-system", "web", json!({ "app": "web" })),
    ];
    let concerned = store.take_services(Step::listed(list));
    assert_eq!(concerned.len(), 5, "not that of kube-system");
    store
}

fn put(store: &mut Store, workload: ExternalWorkload) -> Vec<String> {
    take(store, Step::Applied(workload))
}

fn take(store: &mut Store, step: Step<ExternalWorkload>) -> Vec<String> {
    let concerned = store.take_workloads(Group::Shunt, step, &mut BTreeSet::new());
    concerned.into_iter().map(|id| id.name.into()).collect()
}

#[test]
fn an_event_concerns_the_services_that_select_it_before_or_after() {
    let vm = |changes: &[(&str, Value)]| workload("vm", "192.0.2.1", changes);
    let labels = |app: &str| ("/metadata/labels", json!({ "app": app }));
    let unready = ("/status/conditions/0/status", json!("False"));
    let both = ["all", "web"];
    for (what, before, after, expected) in [
        ("a resync", &[][..], &[][..], &[][..]),
        (
            "nothing of interest",
            &[],
            &[("/metadata/annotations", json!({ "a": "b" }))],
            &[],
        ),
        (
            "another version",
            &[],
            &[("/metadata/resourceVersion", json!("2"))],
            &[],
        ),
        ("readiness", &[], std::slice::from_ref(&unready), &both),
        (
            "an address",
            &[],
            &[("/spec/workloadIPs/0/ip", json!("192.0.2.9"))],
            &both,
        ),
        (
            "a port's number",
            &[],
            &[("/spec/ports/0/port", json!(1))],
            &both,
        ),
        (
            "a port's name",
            &[],
            &[("/spec/ports/0/name", json!("x"))],
            &both,
        ),
        (
            "a port's protocol",
            &[],
            &[("/spec/ports/0/protocol", json!("UDP"))],
            &both,
        ),
        (
            "the end",
            &[],
            &[("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"))],
            &both,
        ),
        (
            "it is made anew",
            &[],
            &[("/metadata/uid", json!("other"))],
            &both,
        ),
        (
            "labels: those that select one of both",
            &[],
            &[labels("other")],
            &["other", "web"],
        ),
        (
            "labels and readiness",
            &[],
            &[labels("other"), unready.clone()],
            &["all", "other", "web"],
        ),
        (
            "a zone",
            &[],
            &[(
                "/metadata/labels",
                json!({ "app": "web", "topology.kubernetes.io/zone": "z" }),
            )],
            &both,
        ),
        (
            "it cannot be read any more",
            &[],
            &[("/spec/ports", json!("x"))],
            &both,
        ),
    ] {
        let mut store = store();
        assert_eq!(put(&mut store, vm(before)), both, "it is new");
        assert_eq!(put(&mut store, vm(after)), expected, "{what}");
    }
    let mut store = store();
    put(&mut store, vm(&[]));
    assert_eq!(take(&mut store, Step::Deleted(vm(&[]))), both);
    assert_eq!(
        take(&mut store, Step::Deleted(vm(&[]))),
        [""; 0],
        "it is unknown"
    );
    put(&mut store, vm(&[]));
    assert_eq!(take(&mut store, Step::listed(vec![])), both);
}

#[test]
fn the_order_of_ports_says_nothing_and_that_of_addresses_does() {
    let ports = |first: u16, second: u16| json!([{ "port": first }, { "port": second }]);
    let ips = |first: &str, second: &str| json!([{ "ip": first }, { "ip": second }]);
    for (path, before, after, is_new) in [
        ("/spec/ports", ports(1, 2), ports(2, 1), false),
        (
            "/spec/workloadIPs",
            ips("192.0.2.1", "fd00::1"),
            ips("fd00::1", "192.0.2.1"),
            true,
        ),
    ] {
        let mut store = store();
        put(&mut store, workload("vm", "", &[(path, before)]));
        let concerned = put(&mut store, workload("vm", "", &[(path, after)]));
        assert_eq!(!concerned.is_empty(), is_new, "{path}");
    }
}

#[test]
fn groups_are_told_apart_and_a_workload_is_of_its_namespace_alone() {
    let mut store = store();
    put(&mut store, workload("vm", "192.0.2.1", &[]));
    let theirs = Step::listed(vec![linkerds("vm", "192.0.2.2", &[])]);
    store.take_workloads(Group::Linkerd, theirs, &mut BTreeSet::new());
    assert_eq!(store.selected(&web(&[])).len(), 2);
    store.take_workloads(Group::Linkerd, Step::listed(vec![]), &mut BTreeSet::new());
    assert_eq!(store.selected(&web(&[])).len(), 1);
    let far = web(&[("/metadata/namespace", json!("b"))]);
    assert_eq!(store.selected(&far).len(), 0);
}

/// The one slice of `a/web` with a workload at this address, at its `generation`.
fn slice(ip: &str, generation: i64) -> Slice {
    let service = web(&[]);
    let lists = plan(
        &service,
        &[],
        &desired(&service, &[workload("vm", ip, &[])]),
    );
    let Write::Create(content) = &lists[0][0] else {
        panic!("{lists:?}");
    };
    (*confirmed(content.new_slice(&service), "s1", generation)).clone()
}

#[test]
fn what_was_written_here_concerns_nobody_and_what_others_write_does() {
    let now = Instant::now();
    let mut store = store();
    let take = |store: &mut Store, step| -> Vec<String> {
        let concerned = store.take_slices(step, now);
        concerned.into_iter().map(|id| id.name.into()).collect()
    };
    store.written(slice("192.0.2.1", 1).into(), now);
    assert_eq!(
        take(&mut store, Step::Applied(slice("192.0.2.1", 1))),
        [""; 0]
    );
    assert_eq!(
        take(&mut store, Step::Applied(slice("192.0.2.2", 2))),
        ["web"]
    );
    assert_eq!(
        take(&mut store, Step::Applied(slice("192.0.2.1", 1))),
        [""; 0],
        "it is older"
    );
    assert_eq!(store.slices(&id("web"))[0].generation, 2);
    // It goes over to another Service: both are concerned.
    let mut other = slice("192.0.2.2", 3);
    other.service = id("other");
    assert_eq!(
        take(&mut store, Step::Applied(other.clone())),
        ["other", "web"]
    );
    assert!(store.slices(&id("web")).is_empty());
    assert_eq!(take(&mut store, Step::Deleted(other)), ["other"]);
    // One that was deleted here.
    store.written(slice("192.0.2.1", 1).into(), now);
    store.deleted(&slice("192.0.2.1", 1), now);
    assert_eq!(
        take(&mut store, Step::Applied(slice("192.0.2.1", 1))),
        [""; 0],
        "a late event"
    );
    assert_eq!(
        take(&mut store, Step::Deleted(slice("192.0.2.1", 2))),
        [""; 0]
    );
    assert!(store.slices(&id("web")).is_empty());
}

#[test]
fn a_list_that_is_older_than_what_was_written_is_not_believed_at_once() {
    let (now, web) = (Instant::now(), id("web"));
    let soon = now + Duration::from_millis(1);
    let late = now + Duration::from_secs(6);
    // It misses a slice, has it in an older form, or has one that was deleted.
    let mut missing = store();
    missing.written(slice("192.0.2.1", 2).into(), now);
    missing.take_slices(Step::listed(vec![]), soon);
    let mut older = store();
    older.written(slice("192.0.2.1", 2).into(), now);
    older.take_slices(Step::listed(vec![slice("192.0.2.1", 1)]), soon);
    let mut deleted = store();
    deleted.written(slice("192.0.2.1", 1).into(), now);
    deleted.deleted(&slice("192.0.2.1", 1), now);
    deleted.take_slices(Step::listed(vec![slice("192.0.2.1", 1)]), soon);
    for (what, store) in [("missing", &mut missing), ("older", &mut older)] {
        assert!(store.is_out_of_date(&web, soon), "{what}");
        assert!(!store.is_out_of_date(&web, late), "{what}");
        store.take_slices(Step::Applied(slice("192.0.2.1", 2)), soon);
        assert!(!store.is_out_of_date(&web, soon), "{what}: the watch tells");
    }
    assert!(deleted.is_out_of_date(&web, soon));
    deleted.take_slices(Step::Deleted(slice("192.0.2.1", 1)), soon);
    assert!(!deleted.is_out_of_date(&web, soon));
    let mut right = store();
    right.written(slice("192.0.2.1", 2).into(), now);
    right.take_slices(Step::listed(vec![slice("192.0.2.1", 2)]), soon);
    assert!(!right.is_out_of_date(&web, soon));
}
