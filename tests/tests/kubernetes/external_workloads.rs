//! The controller makes endpoints of workloads outside the cluster.

use std::{
    collections::{BTreeMap, BTreeSet},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use shunt_tests::{
    Controller, Faults, Kind, Target, addresses, agent_binary, by_length, wait_until,
};

use crate::{
    controller::Cluster,
    objects::{SERVED, and, node, service, with},
    route_objects::definition,
    world::{Pods, SOON, World, is_refused, tcp},
};

pub(crate) const WORKLOADS: (&str, &str) = ("externalworkloads", "workload.shunt.io");
const LINKERDS: (&str, &str) = ("externalworkloads", "workload.linkerd.io");

/// Who writes our slices.
const MANAGER: &str = "external-workloads.shunt.io";

/// A ready workload of our group with the label `app: web` and the port `web`.
pub(crate) fn workload(name: &str, ip: &str) -> Value {
    json!({
        "kind": "ExternalWorkload", "apiVersion": "workload.shunt.io/v1alpha1",
        "metadata": { "namespace": "default", "name": name, "labels": { "app": "web" } },
        "spec": {
            "workloadIPs": [{ "ip": ip }],
            "ports": [{ "name": "web", "port": SERVED, "protocol": "TCP" }],
        },
        "status": readiness(true),
    })
}

fn linkerds(name: &str, ip: &str) -> Value {
    let workload = with(
        workload(name, ip),
        "/apiVersion",
        "workload.linkerd.io/v1beta1",
    );
    let identity = json!({ "identity": "spiffe://a", "serverName": "a" });
    and(workload, "/spec", "meshTLS", identity)
}

fn readiness(is_ready: bool) -> Value {
    let status = if is_ready { "True" } else { "False" };
    json!({ "conditions": [{ "type": "Ready", "status": status }] })
}

/// The Service `web` with a selector.
pub(crate) fn selecting(name: &str, ip: &str) -> Value {
    and(
        service(name, ip),
        "/spec",
        "selector",
        json!({ "app": "web" }),
    )
}

/// Our slices among these.
fn ours<'a>(slices: impl Iterator<Item = &'a Value>) -> impl Iterator<Item = &'a Value> {
    slices.filter(|slice| {
        slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] == MANAGER
    })
}

/// The workloads of a slice, and whether they are ready.
fn endpoints(slice: &Value) -> impl Iterator<Item = (String, bool)> {
    let endpoints = slice["endpoints"].as_array().into_iter().flatten();
    endpoints.map(|endpoint| {
        let name = endpoint["targetRef"]["name"].as_str().unwrap().to_owned();
        (name, endpoint["conditions"]["ready"] == true)
    })
}

impl Cluster {
    /// The endpoints of our slices of a Service, once for each slice that they are in.
    fn published(&self, service: &str) -> Vec<(String, bool)> {
        let slices = self.slices();
        let mut found: Vec<_> = ours(slices.iter())
            .filter(|one| one["metadata"]["labels"]["kubernetes.io/service-name"] == service)
            .flat_map(endpoints)
            .collect();
        found.sort();
        found
    }

    /// The slices that there are.
    fn slices(&self) -> Vec<Value> {
        self.server.objects(Kind::EndpointSlice)
    }

    #[track_caller]
    fn await_published(&self, service: &str, expected: &[(&str, bool)], one: &Controller) {
        let expected: Vec<(String, bool)> = expected
            .iter()
            .map(|(name, ready)| ((*name).to_owned(), *ready))
            .collect();
        let found = wait_until("the slices say so", SOON, || {
            (self.published(service) == expected).then_some(())
        });
        found.unwrap_or_else(|error| {
            let found = self.published(service);
            panic!("{error}: {found:?}, not {expected:?}\n{}", one.log())
        });
    }

    /// Workloads of both groups, of which some are left out.
    pub(crate) fn prepare_workloads(&self) {
        self.server.put(definition(WORKLOADS, &["v1alpha1"]));
        self.server.put(definition(LINKERDS, &["v1beta1"]));
        self.server.put(selecting("db", "10.96.0.20"));
        self.server.put(workload("vm", "192.0.2.1"));
        let other = with(workload("left", "192.0.2.2"), "/spec/ports/0/name", "other");
        self.server.put(other);
        let other = with(linkerds("left", "192.0.2.3"), "/spec/ports/0/name", "other");
        self.server.put(other);
    }

    /// Waits until they have had all that is done to workloads.
    #[track_caller]
    pub(crate) fn await_workloads(&self, one: &Controller) {
        self.await_published("db", &[("vm", true)], one);
        self.server
            .set_status(&workload("vm", ""), readiness(false));
        self.await_published("db", &[("vm", false)], one);
        self.server.delete(&workload("vm", ""));
        self.await_published("db", &[], one);
        // One that is made anew: its Event is counted up.
        let other = with(linkerds("left", "192.0.2.3"), "/spec/ports/0/name", "other");
        for count in [json!(null), json!(2)] {
            wait_until("its user is told", SOON, || {
                let events = self.server.events().into_iter();
                let mut told = events.filter(|event| event["regarding"]["name"] == "left");
                told.find(|event| event["series"]["count"] == count)
            })
            .unwrap_or_else(|error| panic!("{error}: {:#?}\n{}", self.server.events(), one.log()));
            self.server.put(linkerds("left", "192.0.2.3"));
            self.await_published("db", &[("left", true)], one);
            self.server.put(other.clone());
            self.await_published("db", &[], one);
        }
        wait_until("a condition is written", SOON, || {
            let left = self.server.get(&workload("left", ""))?;
            (left["status"]["conditions"].as_array()?.len() == 2).then_some(())
        })
        .unwrap();
    }

    /// How often a slice was written.
    fn slice_writes(&self) -> usize {
        let asked = self.server.asked().into_iter();
        asked
            .filter(|(method, uri)| method != "GET" && uri.contains("endpointslices"))
            .count()
    }
}

#[test]
fn workloads_that_a_service_selects_are_its_endpoints() {
    let Some(cluster) = Cluster::new("workloads-published") else {
        return;
    };
    let server = &cluster.server;
    server.put(selecting("db", "10.96.0.20"));
    let one = cluster.start("one", 18_140);
    let log = || one.process.log();
    wait_until("it waits for the definition", SOON, || {
        log()
            .contains("the cluster does not define ExternalWorkloads")
            .then_some(())
    })
    .unwrap();
    server.put(definition(WORKLOADS, &["v1alpha1"]));
    server.put(workload("a", "192.0.2.1"));
    server.put(workload("b", "192.0.2.2"));
    cluster.await_published("db", &[("a", true), ("b", true)], &one.process);
    server.set_status(&workload("a", ""), readiness(false));
    cluster.await_published("db", &[("a", false), ("b", true)], &one.process);
    // One that nobody can read is in nobody's way.
    server.put(with(
        workload("bad", "192.0.2.3"),
        "/spec/ports/0/port",
        "http",
    ));
    server.put(workload("c", "192.0.2.4"));
    cluster.await_published(
        "db",
        &[("a", false), ("b", true), ("c", true)],
        &one.process,
    );
    let invalid = |object: &Value, reason: &str| {
        let found = wait_until("it is told", SOON, || {
            let object = server.get(object).unwrap();
            let conditions = object["status"]["conditions"].as_array().unwrap().clone();
            let mut told = conditions
                .into_iter()
                .filter(|one| one["type"] == "Published");
            told.find(|one| one["reason"] == reason)
        });
        found.unwrap_or_else(|error| panic!("{error}: {:?}\n{}", server.get(object), log()))
    };
    assert_eq!(invalid(&workload("bad", ""), "Invalid")["status"], "False");
    // One of other ports is not published, and is told so, until it has them.
    let other = with(workload("d", "192.0.2.5"), "/spec/ports/0/name", "other");
    server.put(other.clone());
    let told = invalid(&other, "NoMatchingPort");
    assert!(told["message"].as_str().unwrap().contains("db"), "{told}");
    server.put(workload("d", "192.0.2.5"));
    assert_eq!(invalid(&other, "Published")["status"], "True");
    server.delete(&workload("a", ""));
    server.delete(&workload("b", ""));
    cluster.await_published("db", &[("c", true), ("d", true)], &one.process);
    // What changes nothing is not written.
    let before = cluster.slice_writes();
    server.put(workload("c", "192.0.2.4"));
    server.put(selecting("new", "10.96.0.21"));
    cluster.await_published("new", &[("c", true), ("d", true)], &one.process);
    assert_eq!(cluster.slice_writes(), before + 1);
    // Other controllers' slices stay as they are, and the last workload takes ours along.
    server.put(crate::objects::slice("db", "theirs", &[]));
    server.delete(&workload("c", ""));
    server.delete(&workload("d", ""));
    wait_until("ours are gone", SOON, || {
        (ours(cluster.slices().iter()).count() == 0).then_some(())
    })
    .unwrap();
    assert_eq!(cluster.slices().len(), 1);
}

#[test]
fn a_server_that_refuses_slices_is_asked_again_or_not_as_it_says() {
    let Some(cluster) = Cluster::new("workloads-refused") else {
        return;
    };
    let server = &cluster.server;
    server.put(definition(WORKLOADS, &["v1alpha1"]));
    server.put(selecting("db", "10.96.0.20"));
    let one = cluster.start("one", 18_150);
    for (number, status) in [409, 403, 429, 500, 503].into_iter().enumerate() {
        let before = cluster.slice_writes();
        server.set_faults(Faults {
            slices: Some(status),
            ..Faults::default()
        });
        server.put(workload(
            &format!("vm-{number}"),
            &format!("192.0.2.{}", number + 1),
        ));
        wait_until("it is tried again", SOON, || {
            (cluster.slice_writes() > before + 1).then_some(())
        })
        .unwrap_or_else(|error| panic!("{status}: {error}\n{}", one.process.log()));
        server.set_faults(Faults::default());
        wait_until("it is written", SOON, || {
            (cluster.published("db").len() == number + 1).then_some(())
        })
        .unwrap_or_else(|error| panic!("{status}: {error}\n{}", one.process.log()));
    }
    // The user of the Service was told of what is forbidden.
    wait_until("an Event", SOON, || {
        let events = server.events().into_iter();
        let mut told = events.filter(|event| event["reason"] == "FailedToPublish");
        told.find(|event| event["regarding"]["name"] == "db")
    })
    .unwrap();
    // What it does not take, or what is being removed, is left until something changes.
    for (status, cause) in [(422, None), (403, Some("NamespaceTerminating"))] {
        let before = cluster.slice_writes();
        server.set_faults(Faults {
            slices: Some(status),
            cause,
            ..Faults::default()
        });
        let name = format!("left-{status}");
        server.put(workload(&name, &format!("198.51.100.{}", status % 200)));
        wait_until("it is tried", SOON, || {
            (cluster.slice_writes() > before).then_some(())
        })
        .unwrap();
        server.set_faults(Faults::default());
        thread::sleep(Duration::from_millis(500));
        assert_eq!(
            cluster.slice_writes(),
            before + 1,
            "{status}\n{}",
            one.process.log()
        );
    }
}

#[test]
fn what_linkerd_publishes_is_left_to_it() {
    let Some(cluster) = Cluster::new("workloads-linkerd") else {
        return;
    };
    let server = &cluster.server;
    server.put(definition(WORKLOADS, &["v1alpha1"]));
    server.put(definition(LINKERDS, &["v1beta1"]));
    server.put(selecting("db", "10.96.0.20"));
    server.put(workload("ours", "192.0.2.1"));
    server.put(linkerds("theirs", "192.0.2.2"));
    let one = cluster.start_with("one", 18_160, &["--external-workloads", "shunt,linkerd"]);
    cluster.await_published("db", &[("ours", true), ("theirs", true)], &one.process);
    let label = "endpointslice.kubernetes.io/managed-by";
    let slice = crate::objects::slice("db", "linkerd", &[]);
    let slice = and(
        slice,
        "/metadata/labels",
        label,
        "linkerd-external-workloads-controller",
    );
    server.put(slice.clone());
    cluster.await_published("db", &[("ours", true)], &one.process);
    server.delete(&slice);
    cluster.await_published("db", &[("ours", true), ("theirs", true)], &one.process);
    // linkerd's have no condition of ours: they have Events.
    let other = with(
        linkerds("other", "192.0.2.3"),
        "/spec/ports/0/name",
        "other",
    );
    server.put(other.clone());
    wait_until("an Event", SOON, || {
        let events = server.events().into_iter();
        let mut told = events.filter(|event| event["reason"] == "NoMatchingPort");
        told.find(|event| event["regarding"]["name"] == "other")
    })
    .unwrap();
    let conditions = server.get(&other).unwrap()["status"]["conditions"].clone();
    assert_eq!(conditions.as_array().map(Vec::len), Some(1));
}

/// Fails if an endpoint of these names is missing at any time after it was there.
fn never_missing(cluster: &Cluster, names: &BTreeSet<String>) {
    let mut slices: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for (step, (before, after)) in cluster
        .server
        .history(Kind::EndpointSlice)
        .iter()
        .enumerate()
    {
        let name = |slice: &Value| slice["metadata"]["name"].to_string();
        if let Some(before) = before {
            slices.remove(&name(before));
        }
        if let Some(after) = after {
            let own = endpoints(after).map(|(name, _)| name);
            slices.insert(name(after), own.collect());
        }
        let present: BTreeSet<&String> = slices.values().flatten().collect();
        let missing: Vec<&String> = seen.iter().filter(|name| !present.contains(name)).collect();
        assert!(
            missing.is_empty(),
            "missing after change {step}: {missing:?}"
        );
        seen.extend(
            present
                .into_iter()
                .filter(|name| names.contains(*name))
                .cloned(),
        );
    }
    assert_eq!(seen, *names, "each was there at some time");
}

#[test]
fn two_controllers_that_both_write_lose_no_endpoint_and_leave_none_twice() {
    let Some(cluster) = Cluster::new("workloads-two") else {
        return;
    };
    let server = &cluster.server;
    server.put(definition(WORKLOADS, &["v1alpha1"]));
    server.put(selecting("db", "10.96.0.20"));
    let steady: BTreeSet<String> = (0..120)
        .map(|number| format!("steady-{number:03}"))
        .collect();
    for (number, name) in steady.iter().enumerate() {
        server.put(workload(name, &format!("192.0.2.{}", number + 1)));
    }
    // Each has a Lease of its own, so both lead.
    let one = cluster.start_with("one", 18_170, &["--lease-name", "one"]);
    let two = cluster.start_with("two", 18_172, &["--lease-name", "two"]);
    let end = Instant::now() + Duration::from_secs(by_length(8, 60));
    let mut round = 0_u32;
    while Instant::now() < end {
        round += 1;
        for number in 0..30 {
            let comes = workload(
                &format!("moving-{number:02}"),
                &format!("198.51.100.{}", number + 1),
            );
            match (round + number) % 3 {
                0 => server.delete(&comes),
                _ => server.put(comes),
            }
        }
        match round % 8 {
            3 | 5 => server.cut(),
            7 => server.put(with(
                selecting("db", "10.96.0.20"),
                "/spec/ports/0/name",
                if round % 16 == 7 { "other" } else { "http" },
            )),
            _ => {}
        }
        thread::sleep(Duration::from_millis(150));
    }
    for number in 0..30 {
        server.delete(&workload(&format!("moving-{number:02}"), ""));
    }
    let expected: Vec<(String, bool)> = steady.iter().map(|name| (name.clone(), true)).collect();
    wait_until("each is there once", Duration::from_secs(20), || {
        (cluster.published("db") == expected).then_some(())
    })
    .unwrap_or_else(|error| {
        panic!(
            "{error}: {:?}\n{}\n{}",
            cluster.published("db"),
            one.process.log(),
            two.process.log()
        )
    });
    never_missing(&cluster, &steady);
}

#[test]
fn the_next_leader_goes_on_in_the_middle_of_a_batch() {
    let Some(cluster) = Cluster::new("workloads-leader") else {
        return;
    };
    let server = &cluster.server;
    server.put(definition(WORKLOADS, &["v1alpha1"]));
    for number in 0..40 {
        server.put(selecting(
            &format!("s{number:02}"),
            &format!("10.96.1.{}", number + 1),
        ));
    }
    for number in 0..10 {
        server.put(workload(
            &format!("vm-{number}"),
            &format!("192.0.2.{}", number + 1),
        ));
    }
    let one = cluster.start("one", 18_180);
    wait_until("it has begun", SOON, || {
        (cluster.slice_writes() > 5).then_some(())
    })
    .unwrap();
    one.process.pause().unwrap();
    let two = cluster.start("two", 18_182);
    let all = |cluster: &Cluster| ours(cluster.slices().iter()).flat_map(endpoints).count();
    wait_until(
        "the other one has done the rest",
        Duration::from_secs(20),
        || (all(&cluster) >= 400).then_some(()),
    )
    .unwrap_or_else(|error| panic!("{error}: {}\n{}", all(&cluster), two.process.log()));
    // The first one wakes up with a queue that is not its own any more: what it was allowed to write when it
    // was stopped is all that it may still write, and that is mended.
    let before = cluster.slice_writes();
    one.process.go_on().unwrap();
    thread::sleep(Duration::from_secs(2));
    let mut each = BTreeSet::new();
    for number in 0..40 {
        let service = format!("s{number:02}");
        let found = cluster.published(&service).into_iter();
        each.extend(found.map(|(name, _)| (service.clone(), name)));
    }
    assert_eq!(
        (all(&cluster), each.len()),
        (400, 400),
        "{}",
        one.process.log()
    );
    let late = cluster.slice_writes() - before;
    assert!(
        late <= 16,
        "{late} writes of one that does not lead\n{}",
        one.process.log()
    );
    let lease = server
        .lease("kube-system", crate::controller::LEASE)
        .unwrap();
    assert_eq!(lease["spec"]["holderIdentity"], "two");
}

#[test]
fn clients_reach_a_machine_outside_the_cluster_until_it_is_not_ready() {
    const IP: &str = "10.96.0.30";
    let machine = addresses::POD_D;
    let Some(world) = World::start(&[], Pods::ByFlag, |_, server| {
        server.put(node("node-1", addresses::NODE));
        server.put(definition(WORKLOADS, &["v1alpha1"]));
        server.put(selecting("db", IP));
        server.put(workload("vm", &machine.to_string()));
    }) else {
        return;
    };
    let flags = [
        "--kubeconfig",
        world.server.kubeconfig(),
        "--lease-namespace",
        "kube-system",
        "--metrics-bind-address",
        "127.0.0.1:18190",
        "--healthz-bind-address",
        "127.0.0.1:18191",
    ];
    let controller = Controller::start(&agent_binary(), world.sandbox.node(), &flags).unwrap();
    let (client, target): (_, Target) = (world.pod(), tcp(IP, 80));
    for _ in 0..2 {
        world.await_pods(client, target, &["pod-d"]);
        world
            .server
            .set_status(&workload("vm", ""), readiness(false));
        world.await_failure(client, target, is_refused);
        world
            .server
            .set_status(&workload("vm", ""), readiness(true));
    }
    world.await_pods(client, target, &["pod-d"]);
    assert!(controller.stop().unwrap().success());
    // Without a controller, all stays as it is.
    world.await_pods(client, target, &["pod-d"]);
}
