//! The controller makes endpoints of workloads outside the cluster.

use serde_json::Value;
use shunt_tests::{Controller, Target, addresses, agent_binary, wait_until};

use crate::{
    controller::Cluster,
    objects::{and, node, with},
    route_objects::definition,
    workload_objects::{LINKERDS, WORKLOADS, linkerds, ours, readiness, selecting, workload},
    world::{Pods, SOON, World, is_refused, tcp},
};

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
    // One that is not readable blocks no other one.
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
    // One of other ports is not published, and its status shows that, until it has them.
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
fn slices_of_an_unnamed_port_are_written_when_their_endpoints_change() {
    let Some(cluster) = Cluster::new("workloads-unnamed") else {
        return;
    };
    let server = &cluster.server;
    server.put(definition(WORKLOADS, &["v1alpha1"]));
    server.put(with(
        selecting("db", "10.96.0.20"),
        "/spec/ports/0/name",
        Value::Null,
    ));
    let name = |number: usize| format!("vm-{number:03}");
    for number in 0..250 {
        server.put(workload(&name(number), &format!("192.0.2.{}", number + 1)));
    }
    let expected = |range: std::ops::Range<usize>| range.map(|number| (name(number), true));
    let one = cluster.start("one", 18_144);
    let await_all = |first: usize| {
        wait_until("all are published", SOON, || {
            cluster
                .published("db")
                .into_iter()
                .eq(expected(first..250))
                .then_some(())
        })
        .unwrap_or_else(|error| panic!("{error}\n{}", one.process.log()));
    };
    await_all(0);
    let before = cluster.slice_writes();
    server.delete(&workload(&name(0), ""));
    await_all(1);
    assert_eq!(cluster.slice_writes(), before + 1, "one removal, one write");
    // A look at slices that are right: of another controller, which knows nothing of the first one.
    assert!(one.process.stop().unwrap().success());
    let two = cluster.start("two", 18_146);
    wait_until("it has looked", SOON, || {
        let metrics = cluster.get(18_146, "/metrics")?;
        let looked = r#"shunt_controller_service_syncs_total{result="nothing"} "#;
        let mut lines = metrics.lines().filter_map(|line| line.strip_prefix(looked));
        lines.any(|count| count != "0").then_some(())
    })
    .unwrap_or_else(|error| panic!("{error}\n{}", two.process.log()));
    assert_eq!(cluster.slice_writes(), before + 1, "{}", two.process.log());
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
    // A note that differs is an Event of its own.
    for service in ["db", "db, queue"] {
        wait_until("an Event", SOON, || {
            let events = server.events().into_iter();
            let told = events.filter(|event| event["reason"] == "NoMatchingPort");
            let mut told = told.filter(|event| event["regarding"]["name"] == "other");
            told.find(|event| {
                event["note"]
                    .as_str()
                    .unwrap()
                    .ends_with(&format!(": {service}"))
            })
        })
        .unwrap_or_else(|error| panic!("{error}: {:#?}", server.events()));
        server.put(selecting("queue", "10.96.0.21"));
    }
    let conditions = server.get(&other).unwrap()["status"]["conditions"].clone();
    assert_eq!(conditions.as_array().map(Vec::len), Some(1));
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
