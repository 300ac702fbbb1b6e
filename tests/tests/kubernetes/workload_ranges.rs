//! The controller refuses workloads that have an address which is the cluster's own.

use std::{
    io::ErrorKind,
    net::{SocketAddr, TcpListener},
};

use serde_json::{Value, json};
use shunt_tests::{Faults, Kind, Namespace, wait_until};

use crate::{
    controller::{Candidate, Cluster},
    objects::{and, node, ready, service, service_cidr, slice, with},
    route_objects::definition,
    workload_objects::{LINKERDS, WORKLOADS, linkerds, selecting, workload},
    world::SOON,
};

/// The address of a Node, at which something listens; the controller reaches it.
const NODE: &str = "192.0.2.1";
const PORT: u16 = 5432;
const API_SERVER: &str = "192.0.2.50";
const MACHINE: &str = "192.0.2.9";

/// A workload that is probed at [`PORT`]. It is not yet known to be ready.
fn probed(name: &str, ip: &str) -> Value {
    let workload = with(workload(name, ip), "/status", json!({}));
    let probe = json!({ "tcpSocket": { "port": PORT }, "periodSeconds": 1, "failureThreshold": 1 });
    and(workload, "/spec", "readinessProbe", probe)
}

/// A listener without connections yet.
fn listen(node: &Namespace) -> TcpListener {
    let addresses = format!("addr add {NODE}/32 dev lo\n");
    node.configure(&addresses).unwrap();
    let at = SocketAddr::new(NODE.parse().unwrap(), PORT);
    let listener = node.enter(|| TcpListener::bind(at).unwrap());
    listener.set_nonblocking(true).unwrap();
    listener
}

#[track_caller]
fn assert_unprobed(listener: &TcpListener) {
    let found = listener.accept();
    let kind = found.as_ref().map_err(std::io::Error::kind);
    assert_eq!(kind.err(), Some(ErrorKind::WouldBlock), "{found:?}");
}

impl Cluster {
    /// A Node with pods, a range of ClusterIPs, and an API server.
    fn put_own_addresses(&self) {
        let server = &self.server;
        server.put(definition(WORKLOADS, &["v1alpha1"]));
        server.put(selecting("db", "10.96.0.20"));
        let spec = json!({ "podCIDRs": ["10.1.1.0/24", "fd00:1::/64"] });
        let node = node("node-1", NODE.parse().unwrap());
        server.put(and(node, "", "spec", spec));
        server.put(service_cidr("kubernetes", &["10.96.0.0/16"]));
        server.put(service("kubernetes", "10.96.0.1"));
        let endpoint = ready(API_SERVER.parse().unwrap());
        server.put(slice("kubernetes", "1", &[endpoint]));
    }

    /// Waits until a workload has the condition Published with this reason, and returns it.
    #[track_caller]
    fn await_told(&self, workload: &Value, reason: &str, one: &Candidate) -> Value {
        let found = wait_until("its users are told", SOON, || {
            let object = self.server.get(workload)?;
            let conditions = object["status"]["conditions"].as_array()?.clone();
            let mut own = conditions
                .into_iter()
                .filter(|one| one["type"] == "Published");
            own.find(|one| one["reason"] == reason)
        });
        found.unwrap_or_else(|error| {
            let object = self.server.get(workload);
            panic!("{error}: {object:?}\n{}", one.process.log())
        })
    }
}

#[test]
fn a_workload_with_an_address_of_the_cluster_is_neither_published_nor_probed() {
    let Some(cluster) = Cluster::new("workloads-own") else {
        return;
    };
    let server = &cluster.server;
    let listener = listen(&cluster.node);
    cluster.put_own_addresses();
    server.put(definition(LINKERDS, &["v1beta1"]));
    let at_node = probed("at-node", NODE);
    let refused = [
        (at_node.clone(), "of a Node"),
        (probed("in-pods", "10.1.1.9"), "a Node's pods"),
        (probed("in-pods-v6", "fd00:1::9"), "a Node's pods"),
        (probed("mapped", "::ffff:10.1.1.9"), "a Node's pods"),
        (probed("cluster-ip", "10.96.0.20"), "ClusterIP"),
        (probed("unused-cluster-ip", "10.96.9.9"), "of ClusterIPs"),
        (probed("api-server", API_SERVER), "the API server"),
    ];
    for (workload, _) in &refused {
        server.put(workload.clone());
    }
    server.put(linkerds("theirs", NODE));
    server.put(workload("machine", MACHINE));
    let flags = ["--probe", "--external-workloads", "shunt,linkerd"];
    let one = cluster.start_with("one", 18_230, &flags);
    cluster.await_published("db", &[("machine", true)], &one.process);
    for (workload, words) in &refused {
        let told = cluster.await_told(workload, "Refused", &one);
        assert_eq!(told["status"], "False");
        assert!(told["message"].as_str().unwrap().contains(words), "{told}");
    }
    wait_until("linkerd's has an Event", SOON, || {
        let events = server.events().into_iter();
        let mut told = events.filter(|event| event["reason"] == "Refused");
        told.find(|event| event["regarding"]["name"] == "theirs")
    })
    .unwrap();
    let metric = |name: &str| one.metric(&cluster, name);
    wait_until("they are counted", SOON, || {
        (metric("shunt_controller_workloads_refused") == 8).then_some(())
    })
    .unwrap();
    assert_eq!(metric("shunt_controller_probed_workloads"), 0);
    assert_unprobed(&listener);

    // The Node goes, and its addresses are those of machines.
    server.delete(&node("node-1", NODE.parse().unwrap()));
    let all = [
        ("at-node", true),
        ("in-pods", false),
        ("in-pods-v6", false),
        ("machine", true),
        ("mapped", false),
        ("theirs", true),
    ];
    wait_until("all but those of Services are published", SOON, || {
        let found = cluster.published("db");
        let names: Vec<&str> = found.iter().map(|(name, _)| &**name).collect();
        let expected: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        (names == expected && found[0].1).then_some(())
    })
    .unwrap_or_else(|error| {
        panic!(
            "{error}: {:?}\n{}",
            cluster.published("db"),
            one.process.log()
        )
    });
    assert!(listener.accept().is_ok(), "it is probed");
    assert_eq!(
        cluster.await_told(&at_node, "Published", &one)["status"],
        "True"
    );

    // A new one that has a range of before takes its workloads out again.
    let spec = json!({ "podCIDRs": ["10.1.1.0/24"] });
    let other = and(
        node("node-2", "192.0.2.77".parse().unwrap()),
        "",
        "spec",
        spec,
    );
    server.put(other);
    for name in ["in-pods", "mapped"] {
        cluster.await_told(&probed(name, ""), "Refused", &one);
    }
    wait_until("its pods' addresses are refused", SOON, || {
        let found = cluster.published("db");
        let names: Vec<&str> = found.iter().map(|(name, _)| &**name).collect();
        (names == ["at-node", "in-pods-v6", "machine", "theirs"]).then_some(())
    })
    .unwrap_or_else(|error| panic!("{error}: {:?}", cluster.published("db")));
}

#[test]
fn flags_allow_ranges_of_the_cluster_and_refuse_others() {
    let Some(cluster) = Cluster::new("workloads-ranges") else {
        return;
    };
    let server = &cluster.server;
    let listener = listen(&cluster.node);
    cluster.put_own_addresses();
    server.put(probed("at-node", NODE));
    server.put(probed("in-pods", "10.1.1.9"));
    // As pods of a cluster whose pods have addresses of the network.
    server.put(workload("pod", "198.51.100.7"));
    server.put(workload("machine", "198.51.100.200"));
    let flags = [
        "--probe",
        "--allow-workload-ranges",
        "192.0.2.0/28,198.51.100.192/26",
        "--refuse-workload-ranges",
        "198.51.100.0/24",
    ];
    let one = cluster.start_with("one", 18_232, &flags);
    cluster.await_published("db", &[("at-node", true), ("machine", true)], &one.process);
    assert!(listener.accept().is_ok(), "it is probed");
    let told = cluster.await_told(&workload("pod", ""), "Refused", &one);
    let message = told["message"].as_str().unwrap();
    assert!(message.contains("--refuse-workload-ranges"), "{told}");
    cluster.await_told(&workload("in-pods", ""), "Refused", &one);
}

#[test]
fn without_the_right_to_nodes_workloads_are_published_all_the_same() {
    for (number, kind, words) in [
        (0, Kind::Node, "as Nodes cannot be listed"),
        (1, Kind::ServiceCidr, "as ServiceCIDRs cannot be listed"),
    ] {
        let Some(cluster) = Cluster::new("workloads-rights") else {
            return;
        };
        let server = &cluster.server;
        cluster.put_own_addresses();
        server.set_faults(Faults {
            forbidden: Some(kind),
            ..Faults::default()
        });
        server.put(workload("at-node", NODE));
        server.put(workload("unused-cluster-ip", "10.96.9.9"));
        // A Service sets its own ClusterIP.
        server.put(workload("cluster-ip", "10.96.0.20"));
        let one = cluster.start("one", 18_234 + 2 * number);
        let name = match kind {
            Kind::Node => "at-node",
            _ => "unused-cluster-ip",
        };
        cluster.await_published("db", &[(name, true)], &one.process);
        cluster.await_told(&workload("cluster-ip", ""), "Refused", &one);
        let log = one.process.log();
        assert!(log.contains(words), "{log}");
    }
}
