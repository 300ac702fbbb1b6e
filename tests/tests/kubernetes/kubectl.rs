//! `kubectl shunt`: three agents, as three nodes of a cluster, through its API server.

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Output, Stdio},
};

use serde_json::{Value, json};
use shunt_tests::{ApiServer, Faults, Target, addresses, agent_binary, kubectl_binary, wait_until};

use crate::{
    objects::{node, ready, service, slice},
    world::{Pods, SOON, World, kill, tcp},
};

/// Names of the nodes.
const NODES: [&str; 3] = ["node-1", "node-2", "node-3"];

/// A ClusterIP.
const WEB: &str = "10.96.0.10";

/// Three nodes, each with an agent of its own. The first one's API server knows all of them.
struct Cluster {
    worlds: [World; 3],
}

impl Cluster {
    fn new() -> Option<Self> {
        let prepare = |server: &ApiServer| {
            server.put(node("node-1", addresses::NODE));
            server.put(service("web", WEB));
            let endpoints = [addresses::POD_A, addresses::POD_B].map(ready);
            server.put(slice("web", "4", &endpoints));
        };
        // One family is enough, and three agents take half the time to start.
        let worlds = [(); 3].map(|()| {
            let flags = ["--ip-families", "ipv4", "--pod-cidr", addresses::POD_CIDR];
            World::start(&flags, Pods::ByNode, |_, server| prepare(server))
        });
        let [Some(one), Some(two), Some(three)] = worlds else {
            return None;
        };
        let cluster = Self {
            worlds: [one, two, three],
        };
        for (name, world) in NODES.into_iter().zip(&cluster.worlds) {
            let mut node = node(name, addresses::NODE);
            node["status"]["nodeInfo"] = json!({ "kernelVersion": "6.12.0-test" });
            cluster.server().put(node);
            cluster.server().put(agent_pod(name));
            let socket = world.agent.socket().to_owned();
            let make = move |line: &[String]| {
                assert_eq!(line[0], "/shunt");
                let mut command = Command::new(agent_binary());
                command.args(&line[1..]).arg("--socket").arg(&socket);
                command
            };
            let server = cluster.server();
            server.set_container("kube-system", &format!("shunt-{name}"), "agent", make);
            world.await_pods(world.pod(), tcp(WEB, 80), &["pod-a", "pod-b"]);
        }
        Some(cluster)
    }

    fn server(&self) -> &ApiServer {
        &self.worlds[0].server
    }

    /// Returns `kubectl shunt` with these arguments, as a user of the cluster calls it.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(kubectl_binary());
        command
            .args(["--kubeconfig", self.server().kubeconfig()])
            .args(arguments)
            .stdin(Stdio::null());
        command
    }

    /// Runs it where the API server is, and returns its exit status and what it has written.
    fn run(&self, arguments: &[&str]) -> Said {
        let mut command = self.command(arguments);
        let node = self.worlds[0].sandbox.node();
        let Output {
            status,
            stdout,
            stderr,
        } = node.enter(|| command.output()).unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Said {
            status: status.code(),
            out: text(stdout),
            err: text(stderr),
        }
    }
}

/// Answer of a command.
#[derive(Debug)]
struct Said {
    status: Option<i32>,
    out: String,
    err: String,
}

impl Said {
    /// Returns the lines of JSON.
    #[track_caller]
    fn lines(&self) -> Vec<Value> {
        let lines = self.out.lines();
        let lines = lines.map(serde_json::from_str);
        lines
            .collect::<Result<_, _>>()
            .unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// The pod of a node's agent.
fn agent_pod(node: &str) -> Value {
    json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {
            "namespace": "kube-system", "name": format!("shunt-{node}"),
            "labels": { "app.kubernetes.io/name": "shunt" },
        },
        "spec": { "nodeName": node, "hostNetwork": true, "containers": [{ "name": "agent" }] },
        "status": {
            "phase": "Running", "podIP": "192.168.16.10", "podIPs": [{ "ip": "192.168.16.10" }],
            "conditions": [{ "type": "Ready", "status": "True" }],
        },
    })
}

/// The pod behind an endpoint.
fn web_pod(name: &str, ip: &str) -> Value {
    json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": { "namespace": "default", "name": name },
        "spec": { "nodeName": "node-1", "containers": [{ "name": "web" }] },
        "status": { "phase": "Running", "podIP": ip, "podIPs": [{ "ip": ip }] },
    })
}

/// Returns the names of the nodes, one for each line.
fn nodes(lines: &[Value]) -> Vec<&str> {
    lines
        .iter()
        .map(|line| line["node"].as_str().unwrap())
        .collect()
}

#[test]
fn all_nodes_answer_through_the_api_server() {
    let Some(cluster) = Cluster::new() else {
        return;
    };
    let server = cluster.server();
    server.put(web_pod("web-a", &addresses::POD_A.to_string()));

    let said = cluster.run(&["status"]);
    let rows: Vec<&str> = said.out.lines().take(4).collect();
    let heading = rows.first().copied().unwrap_or_default();
    assert!(heading.starts_with("NODE "), "{said:?}");
    for name in NODES {
        let row = rows.iter().find(|row| row.starts_with(name)).unwrap();
        assert!(row.contains("up to date"), "{row}");
        assert!(row.ends_with("6.12.0-test"), "{row}");
    }
    let said = cluster.run(&["status", "-o", "json"]);
    let lines = said.lines();
    assert_eq!(nodes(&lines), NODES);
    for line in &lines {
        assert_eq!(line["source"]["connected"], true, "{line:#}");
    }

    let said = cluster.run(&["services", "default/web", "-o", "json"]);
    assert_eq!(said.status, Some(0), "{said:?}");
    for name in NODES {
        let of_node = said.lines().into_iter().filter(|line| line["node"] == name);
        let found: Vec<_> = of_node.filter(|line| line["address"] == WEB).collect();
        assert_eq!(found.len(), 1, "{name}: {said:?}");
        assert_eq!(found[0]["backends"].as_array().unwrap().len(), 2);
    }
    let said = cluster.run(&[
        "services",
        "--node",
        "node-2",
        "--address",
        "pod/default/web-a",
    ]);
    assert_eq!(said.status, Some(0), "{said:?}");
    assert!(said.out.starts_with("Node node-2:\nFRONTEND "), "{said:?}");
    assert!(said.out.contains("10.96.0.10:80/TCP"), "{said:?}");

    let said = cluster.run(&["lookup", "pod/default/web-a", "-o", "json"]);
    assert_eq!(
        (said.status, nodes(&said.lines())),
        (Some(0), NODES.to_vec()),
        "{said:?}"
    );
    assert_eq!(said.lines()[2]["member_of"][0]["service"], "default/web");
    let said = cluster.run(&["lookup", "10.96.0.99"]);
    assert_eq!(said.status, Some(1), "{said:?}");

    let said = cluster.run(&[
        "conntrack",
        "--backend",
        "pod/default/web-a",
        "--count",
        "-o",
        "json",
    ]);
    assert_eq!(nodes(&said.lines()), NODES, "{said:?}");
    for line in said.lines() {
        assert!(line["connections"].as_u64() > Some(0), "{line}");
    }
    assert_eq!(
        server.stuck_processes(),
        0,
        "`shunt proxy` outlives its client"
    );
}

#[test]
fn a_pod_is_drained_on_one_node_or_on_all() {
    let Some(cluster) = Cluster::new() else {
        return;
    };
    let server = cluster.server();
    server.put(web_pod("web-a", &addresses::POD_A.to_string()));
    let await_pods = |number: usize, pods: &[&str]| {
        let world = &cluster.worlds[number];
        world.await_pods(world.pod(), tcp(WEB, 80), pods);
    };
    let said = cluster.run(&["drain", "pod/default/web-a", "--node", "node-2"]);
    assert_eq!(said.status, Some(0), "{said:?}");
    assert!(said.out.starts_with("Node node-2:\n"), "{said:?}");
    await_pods(1, &["pod-b"]);
    await_pods(0, &["pod-a", "pod-b"]);
    await_pods(2, &["pod-a", "pod-b"]);

    // The others have no such drain, and that is a line each.
    let said = cluster.run(&["undrain", "pod/default/web-a", "-o", "json"]);
    let failed: Vec<_> = said
        .lines()
        .into_iter()
        .filter(|line| !line["error"].is_null())
        .collect();
    assert_eq!(
        (said.status, nodes(&failed)),
        (Some(1), vec!["node-1", "node-3"]),
        "{said:?}"
    );
    await_pods(1, &["pod-a", "pod-b"]);

    let said = cluster.run(&[
        "weight",
        "default/web",
        "pod/default/web-a",
        "0",
        "-o",
        "json",
    ]);
    assert_eq!(
        (said.status, nodes(&said.lines())),
        (Some(0), NODES.to_vec()),
        "{said:?}"
    );
    for number in 0..3 {
        await_pods(number, &["pod-b"]);
    }
    // Other pods of the node have the agent's address.
    let said = cluster.run(&["drain", "pod/kube-system/shunt-node-1"]);
    assert_eq!(said.status, Some(2), "{said:?}");
    assert!(said.err.contains("name its port"), "{said:?}");
    let said = cluster.run(&["drain", "pod/default/none"]);
    assert!(
        said.err.contains("there is no pod/default/none"),
        "{said:?}"
    );
}

#[test]
fn events_of_all_nodes_come_as_they_happen() {
    let Some(cluster) = Cluster::new() else {
        return;
    };
    let mut command = cluster.command(&["monitor", "--kind", "opened", "-o", "json"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let here = cluster.worlds[0].sandbox.node();
    let mut monitor = here.enter(|| command.spawn()).unwrap();
    let mut notes = Vec::new();
    for line in BufReader::new(monitor.stderr.take().unwrap()).lines() {
        notes.push(line.unwrap());
        if notes.last().is_some_and(|line| line.contains("3 of 3")) {
            break;
        }
    }
    assert!(
        notes.last().is_some_and(|line| line.contains("3 of 3")),
        "{notes:?}"
    );
    let mut lines = BufReader::new(monitor.stdout.take().unwrap()).lines();
    for (name, world) in NODES.into_iter().zip(&cluster.worlds) {
        let target: Target = tcp(WEB, 80);
        world.pod().enter(|| target.ask(100)).unwrap();
        let event: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!(event["node"], name, "{event}");
        assert_eq!(event["kind"], "opened", "{event}");
    }
    monitor.kill().unwrap();
    monitor.wait().unwrap();
    // The processes in the pods end with their client, and the agents' events with them.
    for world in &cluster.worlds {
        wait_until("nobody watches any more", SOON, || {
            let status = world.shunt("status");
            (status["monitor"]["watchers"] == 0).then_some(())
        })
        .unwrap();
    }
    assert_eq!(cluster.server().stuck_processes(), 0);
}

#[test]
fn a_node_that_does_not_answer_is_a_line() {
    let Some(Cluster { worlds }) = Cluster::new() else {
        return;
    };
    let [one, _two, three] = worlds;
    let World {
        agent,
        pins: _pins,
        sandbox: _sandbox,
        ..
    } = three;
    kill(agent);
    // It has no agent at all.
    one.server.put(node("node-4", addresses::NODE));
    let run = |arguments: &[&str]| {
        let mut command = Command::new(kubectl_binary());
        command
            .args(["--kubeconfig", one.server.kubeconfig()])
            .args(arguments);
        let output = one.sandbox.node().enter(|| command.output()).unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Said {
            status: output.status.code(),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    };
    let said = run(&["status"]);
    let order: Vec<&str> = said
        .out
        .lines()
        .skip(1)
        .take(4)
        .map(|row| &row[..6])
        .collect();
    assert_eq!(said.status, Some(1), "{said:?}");
    assert_eq!(
        order[..2],
        ["node-3", "node-4"],
        "the worst is not first: {said:?}"
    );
    assert!(
        said.out.contains("node-3: no agent answers at "),
        "{said:?}"
    );
    assert!(
        said.out.contains("node-4: no agent has a pod on this node"),
        "{said:?}"
    );

    // The kubelet of another node is away.
    one.server
        .remove_container("kube-system", "shunt-node-2", "agent");
    let said = run(&["services", "-o", "json"]);
    let lines = said.lines();
    let errors: Vec<_> = lines
        .iter()
        .filter(|line| !line["error"].is_null())
        .collect();
    assert_eq!(said.status, Some(1), "{said:?}");
    assert_eq!(errors.len(), 3, "{said:?}");
    assert!(said.out.contains("no route to host"), "{said:?}");
    assert!(
        lines
            .iter()
            .any(|line| line["node"] == "node-1" && line["address"] == WEB)
    );
    assert_eq!(one.server.stuck_processes(), 0);

    one.server.set_faults(Faults {
        execs: true,
        ..Faults::default()
    });
    let said = run(&["services", "--node", "node-1"]);
    assert!(said.out.contains("is forbidden"), "{said:?}");
    one.server.set_faults(Faults::default());
    let said = run(&["status", "--namespace", "elsewhere"]);
    assert_eq!(said.status, Some(2), "{said:?}");
}
