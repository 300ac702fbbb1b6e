//! Pods and machines outside the cluster, which lookups know.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

use serde_json::{Value, json};
use shunt_tests::{ApiServer, Faults, Kind, addresses, run, wait_until};

use crate::{
    objects::{node, ready, service, slice, with},
    route_objects::{SERVERS, definition, opaque_server},
    workload_objects::{LINKERDS, WORKLOADS, linkerds, readiness, workload},
    world::{SOON, World, tcp},
};

/// A pod of a node, at this address.
fn pod(name: &str, node: &str, ip: &str, phase: &str) -> Value {
    json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {
            "namespace": "default", "name": name, "uid": name,
            "ownerReferences": [{ "kind": "ReplicaSet", "name": "web", "controller": true }],
        },
        "spec": {
            "nodeName": node,
            "containers": [{ "name": "a", "ports": [
                { "name": "http", "containerPort": 8080, "hostPort": 18080 },
            ] }],
        },
        "status": {
            "phase": phase, "podIP": ip, "podIPs": [{ "ip": ip }],
            "hostIP": "192.168.16.10", "hostIPs": [{ "ip": "192.168.16.10" }],
        },
    })
}

fn prepare(server: &ApiServer) {
    server.put(node("node-1", addresses::NODE));
    server.put(service("web", "10.96.0.10"));
    server.put(slice("web", "4", &[ready(addresses::POD_A)]));
    server.put(pod("here", "node-1", "10.1.1.3", "Running"));
    server.put(pod("there", "node-2", "10.1.2.3", "Running"));
    server.put(pod("over", "node-1", "10.1.1.9", "Succeeded"));
}

/// Returns the output of `shunt lookup` for a place; it may have no answer.
fn lookup(world: &World, place: &str) -> Value {
    let socket = world.agent.socket().to_str().unwrap();
    let binary = shunt_tests::agent_binary();
    let said = run(
        binary.to_str().unwrap(),
        &["lookup", place, "-o", "json", "--socket", socket],
    );
    said.map_or(Value::Null, |said| serde_json::from_str(&said).unwrap())
}

/// Waits until the address is that of this pod, or has no owner.
#[track_caller]
fn await_pod(world: &World, ip: &str, name: Option<&str>) {
    let found = || lookup(world, ip)["targets"][0]["workload"]["name"].clone();
    let waited = wait_until("the address is the pod's", SOON, || {
        (found().as_str() == name).then_some(())
    });
    waited.unwrap_or_else(|error| panic!("{error}: {ip}: {}\n{}", found(), world.agent.log()));
}

#[test]
fn pods_of_all_nodes_are_known_and_followed() {
    let Some(world) = World::with(&["--lookup-pods", "all"], prepare) else {
        return;
    };
    await_pod(&world, "10.1.1.3", Some("here"));
    await_pod(&world, "10.1.2.3", Some("there"));
    await_pod(&world, "10.1.1.9", None);
    let here = lookup(&world, "10.1.1.3:8080");
    assert_eq!(here["kind"], "Pod");
    assert_eq!(here["targets"][0]["workload"]["owner"], "ReplicaSet/web");
    assert_eq!(here["member_of"][0]["service"], "default/web");
    assert_eq!(
        lookup(&world, "192.168.16.10:18080/tcp")["kind"],
        "HostPort"
    );
    let web = lookup(&world, "10.96.0.10:80");
    assert_eq!(web["endpoints"][0]["workload"]["name"], "here");

    // Its address is given to another.
    world
        .server
        .delete(&pod("here", "node-1", "10.1.1.3", "Running"));
    await_pod(&world, "10.1.1.3", None);
    world
        .server
        .put(pod("next", "node-1", "10.1.1.3", "Running"));
    await_pod(&world, "10.1.1.3", Some("next"));
    world
        .server
        .put(pod("next", "node-1", "10.1.1.3", "Failed"));
    await_pod(&world, "10.1.1.3", None);
    world.await_pods(world.pod(), tcp("10.96.0.10", 80), &["pod-a"]);
}

/// A `shunt lookup --watch`. Dropped, it ends.
struct Follower {
    process: Child,
    lines: Receiver<String>,
}

impl Follower {
    fn start(world: &World, place: &str) -> Self {
        let mut command = Command::new(shunt_tests::agent_binary());
        command.args(["lookup", place, "--watch", "-o", "json", "--socket"]);
        command.arg(world.agent.socket()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { process, lines }
    }

    /// Returns the first line that comes within `limit`.
    fn line(&self, limit: Duration) -> Option<String> {
        self.lines.recv_timeout(limit).ok()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

#[test]
fn a_follower_hears_nothing_before_the_first_pods() {
    let Some(world) = World::with(&["--lookup-pods", "all"], |server| {
        prepare(server);
        server.set_faults(Faults {
            withheld: Some(Kind::Pod),
            ..Faults::default()
        });
    }) else {
        return;
    };
    let pod = Follower::start(&world, "10.1.2.3");
    let service = Follower::start(&world, "10.96.0.10:80");
    assert_eq!(pod.line(Duration::from_secs(3)), None);
    assert_eq!(service.line(Duration::ZERO), None);
    assert_eq!(
        lookup(&world, "10.1.2.3"),
        Value::Null,
        "a lookup is answered at once"
    );
    world.server.set_faults(Faults::default());
    let first = pod.line(SOON).unwrap();
    assert!(first.contains("there"), "{first}");
    let first = service.line(SOON).unwrap();
    assert!(
        first.contains("here"),
        "its endpoint has the pod's name: {first}"
    );
}

#[test]
fn pods_of_this_node_alone_are_known_if_so_asked() {
    let Some(world) = World::with(&["--lookup-pods", "node"], prepare) else {
        return;
    };
    await_pod(&world, "10.1.1.3", Some("here"));
    assert_eq!(lookup(&world, "10.1.2.3"), Value::Null, "nobody is there");
    let requests = world.server.requests();
    let mut pods = requests
        .iter()
        .filter(|uri| uri.starts_with("/api/v1/pods"));
    assert!(
        pods.all(|uri| uri.contains("spec.nodeName%3Dnode-1")),
        "{requests:?}"
    );
}

#[test]
fn machines_outside_the_cluster_are_known_and_followed() {
    let prepare = |server: &ApiServer| {
        prepare(server);
        server.put(definition(WORKLOADS, &["v1alpha1"]));
        server.put(workload("vm", "203.0.113.7"));
        // It is not readable, and blocks no other one.
        server.put(with(workload("bad", "203.0.113.9"), "/spec/ports", "x"));
        let mut endpoint = ready(addresses::POD_A);
        endpoint["addresses"] = json!(["203.0.113.7"]);
        server.put(slice("web", "vm", &[endpoint]));
    };
    let Some(world) = World::with(&["--lookup-pods", "all"], prepare) else {
        return;
    };
    await_pod(&world, "203.0.113.7:8080/tcp", Some("vm"));
    let found = lookup(&world, "203.0.113.7:8080/tcp");
    assert_eq!(found["kind"], "ExternalWorkload");
    assert_eq!(found["targets"][0]["workload"]["ready"], true, "{found}");
    assert_eq!(found["member_of"][0]["service"], "default/web", "{found}");
    let other = lookup(&world, "203.0.113.7:9090/tcp");
    assert_eq!(other, Value::Null, "it declares no such port");
    world
        .server
        .set_status(&workload("vm", ""), readiness(false));
    let is_ready =
        || lookup(&world, "203.0.113.7:8080/tcp")["targets"][0]["workload"]["ready"].clone();
    wait_until("it is not ready", SOON, || {
        (is_ready() == false).then_some(())
    })
    .unwrap();
    // linkerd's are known as soon as the cluster has them.
    world.server.put(definition(LINKERDS, &["v1beta1"]));
    world.server.put(linkerds("theirs", "203.0.113.8"));
    await_pod(&world, "203.0.113.8:8080/tcp", Some("theirs"));
    world.server.delete(&workload("vm", ""));
    await_pod(&world, "203.0.113.7:8080/tcp", None);
}

#[test]
fn servers_of_linkerd_make_ports_of_pods_opaque() {
    let labelled = |name: &str, ip: &str, app: &str| {
        let mut pod = pod(name, "node-1", ip, "Running");
        pod["metadata"]["labels"] = json!({ "app": app });
        pod
    };
    let prepare = |server: &ApiServer| {
        prepare(server);
        server.put(labelled("db", "10.1.1.4", "db"));
        server.put(labelled("web", "10.1.1.5", "web"));
        server.put(definition(SERVERS, &["v1beta3"]));
        server.put(opaque_server("db", "db", "http".into()));
    };
    let Some(world) = World::with(&["--lookup-pods", "all"], prepare) else {
        return;
    };
    let await_ports = |ip: &str, expected: Value| {
        let found = || lookup(&world, ip)["targets"][0]["workload"]["policy_opaque_ports"].clone();
        let waited = wait_until("the ports are opaque", SOON, || {
            (found() == expected).then_some(())
        });
        waited.unwrap_or_else(|error| panic!("{error}: {ip}: {}", found()));
    };
    await_ports("10.1.1.4", json!(["8080"]));
    await_ports("10.1.1.5", Value::Null);
    world.server.put(opaque_server("other", "web", 3000.into()));
    await_ports("10.1.1.5", json!(["3000"]));
    await_ports("10.1.1.4", json!(["8080"]));
    world
        .server
        .delete(&opaque_server("db", "db", "http".into()));
    await_ports("10.1.1.4", Value::Null);
}

/// A Service without a cluster IP, whose instances are known by their names, and its slice.
fn headless() -> [Value; 2] {
    let mut service = service("db", "10.96.0.11");
    service["spec"]["clusterIP"] = "None".into();
    service["spec"]["clusterIPs"] = json!(["None"]);
    let mut slice = slice("db", "4", &[ready(addresses::POD_A)]);
    slice["metadata"]["labels"]["service.kubernetes.io/headless"] = "".into();
    [service, slice]
}

#[test]
fn headless_services_are_known_by_their_names() {
    let prepare = |server: &ApiServer| {
        prepare(server);
        for object in headless() {
            server.put(object);
        }
    };
    let Some(world) = World::with(&["--lookup-pods", "all"], prepare) else {
        return;
    };
    await_pod(&world, "10.1.1.3", Some("here"));
    let services = || {
        let found = lookup(&world, "10.1.1.3:8080");
        let services = found["member_of"].as_array().cloned().unwrap_or_default();
        let names = services.iter().map(|one| one["service"].clone());
        names.collect::<Vec<_>>()
    };
    assert_eq!(services(), ["default/db", "default/web"]);
    assert_eq!(
        world.frontends().len(),
        2,
        "those of web, one of each family"
    );
    // It is followed like any other.
    let [_, pods] = headless();
    world.server.delete(&pods);
    let waited = wait_until("the pod is no instance any more", SOON, || {
        (services() == ["default/web"]).then_some(())
    });
    waited.unwrap_or_else(|error| panic!("{error}: {:?}", services()));
}

#[test]
fn no_pod_is_asked_for_unless_it_is_wanted() {
    let prepare = |server: &ApiServer| {
        prepare(server);
        for object in headless() {
            server.put(object);
        }
    };
    let Some(world) = World::with(&[], prepare) else {
        return;
    };
    world.await_pods(world.pod(), tcp("10.96.0.10", 80), &["pod-a"]);
    let requests = world.server.requests();
    assert!(
        !requests.iter().any(|uri| uri.contains("pods")),
        "{requests:?}"
    );
    let found = lookup(&world, "10.1.1.3:8080");
    assert_eq!(found["kind"], "Unknown");
    let services = found["member_of"].as_array().unwrap();
    assert_eq!(services.len(), 1, "no headless service is known: {found}");
}
