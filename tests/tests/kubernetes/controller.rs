//! The controller writes the status of routes.

use std::{
    collections::BTreeMap,
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use shunt_tests::{
    ApiServer, Controller, Faults, Namespace, agent_binary, has_root, http_get, wait_until,
};

use crate::{
    objects::{service, with},
    route_objects::{
        GRANTS, TCP_ROUTES, TRAFFIC_SPLITS, UDP_ROUTES, backend, backend_in, definition, grant,
        route, tcp_route,
    },
    world::SOON,
};

pub(crate) const NAMESPACE: &str = "kube-system";
pub(crate) const LEASE: &str = "shunt-controller";

/// A cluster with the Services `web` and `v1`, and no controller yet.
pub(crate) struct Cluster {
    pub(crate) server: ApiServer,
    pub(crate) node: Namespace,
}

/// A controller, and the port of its metrics; that of its health is the next one.
pub(crate) struct Candidate {
    pub(crate) process: Controller,
    port: u16,
}

impl Cluster {
    /// `None`, with a word about it, without root.
    pub(crate) fn new(role: &str) -> Option<Self> {
        if !has_root() {
            return None;
        }
        let node = Namespace::new(0, role).unwrap();
        let server = ApiServer::start(&node).unwrap();
        for kind in [TCP_ROUTES, UDP_ROUTES] {
            server.put(definition(kind, &["v1", "v1alpha2"]));
        }
        server.put(definition(GRANTS, &["v1"]));
        server.put(definition(TRAFFIC_SPLITS, &["v1alpha2"]));
        server.put(service("web", "10.96.0.10"));
        server.put(service("v1", "10.96.0.11"));
        Some(Self { server, node })
    }

    pub(crate) fn start(&self, name: &str, port: u16) -> Candidate {
        self.start_with(name, port, &[])
    }

    /// One whose Lease is short, with further flags.
    pub(crate) fn start_with(&self, name: &str, port: u16, further: &[&str]) -> Candidate {
        let lease = ["--lease-duration", "5s", "--lease-grace", "2s"];
        self.start_as_deployed(name, port, &[&lease, further].concat())
    }

    /// One with the default durations of its Lease, and with these flags.
    pub(crate) fn start_as_deployed(&self, name: &str, port: u16, further: &[&str]) -> Candidate {
        let (metrics, health) = (
            format!("127.0.0.1:{port}"),
            format!("127.0.0.1:{}", port + 1),
        );
        let mut flags = vec![
            "--kubeconfig",
            self.server.kubeconfig(),
            "--lease-namespace",
            NAMESPACE,
            "--identity",
            name,
            "--metrics-bind-address",
            &metrics,
            "--healthz-bind-address",
            &health,
        ];
        flags.extend(further);
        let process = Controller::start(&agent_binary(), &self.node, &flags).unwrap();
        Candidate { process, port }
    }

    /// Returns the holder of the Lease.
    pub(crate) fn holder(&self) -> Option<String> {
        let lease = self.server.lease(NAMESPACE, LEASE)?;
        Some(lease["spec"]["holderIdentity"].as_str()?.to_owned())
    }

    #[track_caller]
    pub(crate) fn await_holder(&self, name: &str) {
        let found = wait_until("the right one leads", SOON, || {
            (self.holder().as_deref() == Some(name)).then_some(())
        });
        found.unwrap_or_else(|error| panic!("{error}: {:?}", self.server.lease(NAMESPACE, LEASE)));
    }

    /// `status.parents` of the object.
    fn parents(&self, object: &Value) -> Vec<Value> {
        let found = self.server.get(object).unwrap();
        found["status"]["parents"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    }

    /// The reasons of our conditions, and the generation, of each of our entries.
    pub(crate) fn reasons(&self, object: &Value) -> Vec<String> {
        let parents = self.parents(object).into_iter();
        let ours = parents.filter(|entry| entry["controllerName"] == "shunt.io/controller");
        ours.map(|entry| {
            let conditions = entry["conditions"].as_array().unwrap().iter();
            let texts = conditions.map(|condition| {
                let text = |name: &str| condition[name].as_str().unwrap().to_owned();
                let is_good = text("reason") == text("type");
                assert_eq!(text("status") == "True", is_good, "{condition}");
                format!("{}@{}", text("reason"), condition["observedGeneration"])
            });
            texts.collect::<Vec<_>>().join(" ")
        })
        .collect()
    }

    #[track_caller]
    pub(crate) fn await_reasons(&self, object: &Value, expected: &[&str]) {
        let found = wait_until("the status says so", SOON, || {
            (self.reasons(object) == expected).then_some(())
        });
        found.unwrap_or_else(|error| {
            panic!("{error}: {:#?}, not {expected:?}", self.parents(object))
        });
    }

    /// Returns the number of requests to write a status.
    pub(crate) fn writes(&self) -> usize {
        let asked = self.server.asked().into_iter();
        asked
            .filter(|(method, uri)| method == "PATCH" && uri.contains("/status?"))
            .count()
    }

    /// Returns a candidate's page at this path, if it serves one.
    pub(crate) fn get(&self, port: u16, path: &str) -> Option<String> {
        let at = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
        let answer = self.node.enter(|| http_get(at, path, &[])).ok()?;
        (answer.status == 200).then_some(answer.body)
    }
}

impl Candidate {
    /// A series of its metrics.
    pub(crate) fn metric(&self, cluster: &Cluster, series: &str) -> u64 {
        let metrics = cluster.get(self.port, "/metrics").unwrap();
        let mut lines = metrics.lines();
        let value = lines.find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        let value = value.unwrap_or_else(|| panic!("no {series} in\n{metrics}"));
        value.parse().unwrap()
    }

    /// Returns the number of statuses that it has written.
    pub(crate) fn written(&self, cluster: &Cluster) -> u64 {
        self.metric(
            cluster,
            "shunt_controller_statuses_total{result=\"written\"}",
        )
    }

    #[track_caller]
    pub(crate) fn await_written(&self, cluster: &Cluster, count: u64) {
        let found = wait_until("it has written", SOON, || {
            (self.written(cluster) == count).then_some(())
        });
        found.unwrap_or_else(|error| panic!("{error}: {}, not {count}", self.written(cluster)));
    }

    #[track_caller]
    pub(crate) fn await_ready(&self, cluster: &Cluster) {
        let found = wait_until("the controller is ready", SOON, || {
            cluster.get(self.port + 1, "/readyz")
        });
        found.unwrap_or_else(|error| panic!("{error}\n{}", self.process.log()));
    }
}

#[test]
fn the_status_of_routes_says_what_holds_for_them() {
    let Some(cluster) = Cluster::new("controller-status") else {
        return;
    };
    let (server, good) = (&cluster.server, "Accepted@1 ResolvedRefs@1");
    let r = |backends: &[Value]| tcp_route("r", 2, backends);
    server.put(r(&[backend("v1", 1)]));
    let older = route(("UDPRoute", "v1alpha2"), "u", 1, "web", &[backend("v1", 1)]);
    server.put(older.clone());
    let one = cluster.start("one", 18_080);
    cluster.await_reasons(&r(&[]), &[good]);
    cluster.await_reasons(&older, &["NoMatchingParent@1 BackendNotFound@1"]);
    let [entry] = <[Value; 1]>::try_from(cluster.parents(&r(&[]))).unwrap();
    assert_eq!(
        entry["parentRef"],
        json!({ "group": "", "kind": "Service", "name": "web" })
    );

    server.put(r(&[backend("v1", 1), backend("missing", 1)]));
    cluster.await_reasons(&r(&[]), &["Accepted@2 BackendNotFound@2"]);
    server.put(service("missing", "10.96.0.12"));
    cluster.await_reasons(&r(&[]), &["Accepted@2 ResolvedRefs@2"]);
    server.put(r(&[backend_in("backends", "far", 1)]));
    cluster.await_reasons(&r(&[]), &["Accepted@3 RefNotPermitted@3"]);
    server.put(with(
        service("far", "10.96.0.13"),
        "/metadata/namespace",
        "backends",
    ));
    server.put(grant("backends"));
    cluster.await_reasons(&r(&[]), &["Accepted@3 ResolvedRefs@3"]);
    server.delete(&grant("backends"));
    cluster.await_reasons(&r(&[]), &["Accepted@3 RefNotPermitted@3"]);
    // An older one takes its port, and frees it again.
    let old = tcp_route("old", 1, &[backend("v1", 1)]);
    server.put(old.clone());
    cluster.await_reasons(&old, &[good]);
    cluster.await_reasons(&r(&[]), &["Conflicted@3 RefNotPermitted@3"]);
    server.delete(&old);
    cluster.await_reasons(&r(&[]), &["Accepted@3 RefNotPermitted@3"]);
    // It goes over to a Gateway: its status is taken back.
    let elsewhere = with(
        r(&[backend("v1", 1)]),
        "/spec/parentRefs",
        json!([{ "name": "gateway" }]),
    );
    server.put(elsewhere.clone());
    cluster.await_reasons(&elsewhere, &[]);
    assert_eq!(cluster.parents(&elsewhere), [] as [Value; 0]);
    assert!(cluster.get(one.port + 1, "/livez").is_some());
}

/// The metrics of the controller that a document has in a table, each with its type.
fn documented(name: &str) -> BTreeMap<String, String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let document = fs::read_to_string(file.join(name)).unwrap();
    let mut found = BTreeMap::new();
    for line in document.lines() {
        let Some(row) = line.strip_prefix("| `shunt_controller_") else {
            continue;
        };
        let mut cells = row.split('|').map(str::trim);
        let names = format!("`shunt_controller_{}", cells.next().unwrap());
        let kind = cells.next().unwrap();
        for name in names.split(", ") {
            let name = name.trim_matches('`').to_owned();
            assert_eq!(found.insert(name, kind.to_owned()), None, "{line}");
        }
    }
    found
}

#[test]
fn every_metric_of_the_controller_is_documented_as_it_is() {
    let Some(cluster) = Cluster::new("controller-metrics") else {
        return;
    };
    let one = cluster.start("one", 18_220);
    one.await_ready(&cluster);
    let metrics = cluster.get(one.port, "/metrics").unwrap();
    let typed = metrics.lines().filter_map(|line| {
        let (name, kind) = line.strip_prefix("# TYPE ")?.split_once(' ')?;
        name.starts_with("shunt_controller_")
            .then(|| (name.to_owned(), kind.to_owned()))
    });
    let mut expected = documented("routes.md");
    expected.extend(documented("external-workloads.md"));
    assert_eq!(typed.collect::<BTreeMap<_, _>>(), expected);
}

#[test]
fn only_our_entries_are_touched_and_nothing_is_written_twice() {
    let Some(cluster) = Cluster::new("controller-entries") else {
        return;
    };
    let others = json!({
        "parentRef": { "group": "", "kind": "Service", "name": "web" },
        "controllerName": "other.example/controller", "conditions": [],
    });
    let mut r = tcp_route("r", 1, &[backend("v1", 1)]);
    r["status"] = json!({ "parents": [others] });
    cluster.server.put(r.clone());
    let one = cluster.start("one", 18_090);
    cluster.await_reasons(&r, &["Accepted@1 ResolvedRefs@1"]);
    let parents = cluster.parents(&r);
    assert_eq!(
        (parents.len(), &parents[0]),
        (2, &others),
        "it stays, and where it is"
    );
    one.await_written(&cluster, 1);
    // What changes nothing for the route: a Service that it does not name, and its own object.
    cluster.server.put(service("other", "10.96.0.14"));
    cluster.server.put(r.clone());
    // The controller that has a change after these has these, too.
    let next = tcp_route("s", 2, &[backend("v1", 1)]);
    cluster.server.put(next.clone());
    cluster.await_reasons(&next, &["Conflicted@1 ResolvedRefs@1"]);
    one.await_written(&cluster, 2);
    assert_eq!(cluster.writes(), 2);
    assert_eq!(cluster.parents(&r), parents);
    // The next one finds all as it has to be.
    assert!(one.process.stop().unwrap().success());
    let two = cluster.start("two", 18_092);
    let looks = "shunt_controller_statuses_total{result=\"nothing\"}";
    two.await_ready(&cluster);
    wait_until("both are looked at", SOON, || {
        (two.metric(&cluster, looks) >= 2).then_some(())
    })
    .unwrap();
    assert_eq!((two.written(&cluster), cluster.writes()), (0, 2));
}

#[test]
fn a_server_that_refuses_or_is_busy_is_asked_again() {
    let Some(cluster) = Cluster::new("controller-refused") else {
        return;
    };
    let one = cluster.start("one", 18_100);
    cluster.await_holder("one");
    for (number, status) in [409, 429, 500, 503].into_iter().enumerate() {
        let route = tcp_route("r", 1, &[backend("v1", number as u32)]);
        let before = cluster.writes();
        cluster.server.set_faults(Faults {
            statuses: Some(status),
            ..Faults::default()
        });
        cluster.server.put(route.clone());
        wait_until("it is tried twice", SOON, || {
            (cluster.writes() > before + 1).then_some(())
        })
        .unwrap_or_else(|error| panic!("{status}: {error}\n{}", one.process.log()));
        cluster.server.set_faults(Faults::default());
        let generation = number + 1;
        let good = format!("Accepted@{generation} ResolvedRefs@{generation}");
        cluster.await_reasons(&route, &[&good]);
    }
    // What is refused for good is not requested again, and blocks no other one.
    cluster.server.set_faults(Faults {
        statuses: Some(422),
        ..Faults::default()
    });
    let before = cluster.writes();
    cluster.server.put(tcp_route("bad", 2, &[backend("v1", 1)]));
    let refused = "shunt_controller_statuses_total{result=\"refused\"}";
    wait_until("it is refused", SOON, || {
        (one.metric(&cluster, refused) >= 1).then_some(())
    })
    .unwrap();
    cluster.server.set_faults(Faults::default());
    let next = tcp_route("next", 3, &[backend("v1", 1)]);
    cluster.server.put(next.clone());
    cluster.await_reasons(&next, &["Conflicted@1 ResolvedRefs@1"]);
    assert_eq!(cluster.writes(), before + 2);
}

#[test]
fn entries_that_another_controller_overwrites_are_written_again_and_reported_once() {
    let Some(cluster) = Cluster::new("controller-mends") else {
        return;
    };
    let (r, good) = (
        tcp_route("r", 1, &[backend("v1", 1)]),
        "Accepted@1 ResolvedRefs@1",
    );
    cluster.server.put(r.clone());
    let one = cluster.start("one", 18_240);
    cluster.await_reasons(&r, &[good]);
    let others = json!({
        "parentRef": { "group": "", "kind": "Service", "name": "web" },
        "controllerName": "other.example/controller", "conditions": [],
    });
    let overwrites = || {
        let overwritten = json!({ "parents": [others] });
        cluster.server.set_status(&r, overwritten);
    };
    // The second one follows the first: it is mended a second after it.
    for _ in 0..2 {
        overwrites();
        wait_until("it is mended", Duration::from_secs(2), || {
            (cluster.reasons(&r) == [good]).then_some(())
        })
        .unwrap_or_else(|error| panic!("{error}\n{}", one.process.log()));
        assert_eq!(cluster.parents(&r)[0], others, "it stays");
    }
    // Again and again: after 2 s, and after 4 s more.
    let before = cluster.writes();
    let end = Instant::now() + Duration::from_secs(5);
    while Instant::now() < end {
        if cluster.reasons(&r) == [good] {
            overwrites();
        }
        thread::sleep(Duration::from_millis(20));
    }
    let writes = cluster.writes() - before;
    assert!(writes <= 3, "{writes} writes\n{}", one.process.log());
    cluster.await_reasons(&r, &[good]);
    let log = one.process.log();
    assert_eq!(log.matches("overwrites our entries").count(), 1, "{log}");
    // Another route is not concerned, and changes of other entries are no overwriting.
    let s = tcp_route("s", 2, &[backend("v1", 1)]);
    cluster.server.put(s.clone());
    cluster.await_reasons(&s, &["Conflicted@1 ResolvedRefs@1"]);
    let writes = cluster.writes();
    let mut parents = cluster.parents(&s);
    parents.push(others.clone());
    let looks = || {
        one.metric(
            &cluster,
            "shunt_controller_statuses_total{result=\"nothing\"}",
        )
    };
    let before = looks();
    cluster.server.set_status(&s, json!({ "parents": parents }));
    wait_until("it is looked at", SOON, || (looks() > before).then_some(())).unwrap();
    assert_eq!((cluster.writes(), cluster.parents(&s)), (writes, parents));
}
