//! The controller looks whether workloads are ready that ask for it.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU16, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use serde_json::{Value, json};
use shunt_tests::{Kind, Namespace, wait_until};

use crate::{
    controller::Cluster,
    objects::{and, with},
    route_objects::definition,
    workload_objects::{LINKERDS, WORKLOADS, linkerds, readiness, selecting, workload},
    world::SOON,
};

/// Addresses of the machines, all of them the controller's own namespace's.
const DATABASE: &str = "192.0.2.1";
const WEB: &str = "192.0.2.2";
const PORT: u16 = 5432;
const WEB_PORT: u16 = 8000;

fn listen(node: &Namespace, ip: &str, port: u16) -> TcpListener {
    let at = SocketAddr::new(ip.parse().unwrap(), port);
    node.enter(|| TcpListener::bind(at).unwrap())
}

/// A web server that answers each request with the status that is set. It ends when this is dropped.
struct Web {
    status: Arc<AtomicU16>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Web {
    fn start(node: &Namespace) -> Self {
        let listener = listen(node, WEB, WEB_PORT);
        listener.set_nonblocking(true).unwrap();
        let status = Arc::new(AtomicU16::new(200));
        let is_over = Arc::new(AtomicBool::new(false));
        let (told, over) = (Arc::clone(&status), Arc::clone(&is_over));
        let thread = thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => answer(stream, told.load(Ordering::Relaxed)),
                    Err(_) => thread::sleep(Duration::from_millis(5)),
                }
            }
        });
        Self {
            status,
            is_over,
            thread: Some(thread),
        }
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        drop(self.thread.take().map(JoinHandle::join));
    }
}

/// Answers one request; one that asks for something else than it should finds nothing.
fn answer(mut stream: TcpStream, status: u16) {
    let mut asked = [0; 1024];
    stream.set_nonblocking(false).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(1)))
        .unwrap();
    let length = stream.read(&mut asked).unwrap_or(0);
    let text = String::from_utf8_lossy(&asked[..length]).to_lowercase();
    let is_right =
        text.starts_with("get /ready http/1.1\r\n") && text.contains("host: db.example\r\n");
    let status = if is_right { status } else { 404 };
    let answer = format!("HTTP/1.1 {status} x\r\ncontent-length: 0\r\n\r\n");
    // The client may be gone.
    drop(stream.write_all(answer.as_bytes()));
}

/// A workload that is not yet known to be ready, with this probe.
fn probed(name: &str, ip: &str, probe: Value) -> Value {
    let workload = with(workload(name, ip), "/status", json!({}));
    and(workload, "/spec", "readinessProbe", probe)
}

/// Seconds that an answer may take: on a busy machine one takes more than the default of a second.
const TIMEOUT: u32 = 30;

fn database() -> Value {
    let probe = json!({
        "tcpSocket": { "port": PORT }, "periodSeconds": 1, "timeoutSeconds": TIMEOUT, "failureThreshold": 2
    });
    probed("database", DATABASE, probe)
}

fn web() -> Value {
    let headers = json!([{ "name": "Host", "value": "db.example" }]);
    let get = json!({ "port": WEB_PORT, "path": "/ready", "httpHeaders": headers });
    probed(
        "web",
        WEB,
        json!({ "httpGet": get, "periodSeconds": 1, "timeoutSeconds": TIMEOUT }),
    )
}

impl Cluster {
    /// Returns the number of changes of a workload's status.
    fn status_changes(&self, name: &str) -> usize {
        let history = self.server.history(Kind::ExternalWorkload).into_iter();
        let own = history.filter(|(_, after)| {
            let after = after.as_ref();
            after.is_some_and(|after| after["metadata"]["name"] == name)
        });
        own.filter(|(before, after)| {
            let status = |object: &Option<Value>| object.as_ref().map(|one| one["status"].clone());
            before.is_some() && status(before) != status(after)
        })
        .count()
    }

    /// The condition Ready of a workload.
    fn ready(&self, workload: &Value) -> Value {
        let found = self.server.get(workload).unwrap();
        let conditions = found["status"]["conditions"].as_array().cloned();
        let mut conditions = conditions.unwrap_or_default().into_iter();
        conditions
            .find(|one| one["type"] == "Ready")
            .unwrap_or_default()
    }
}

#[test]
fn workloads_are_ready_as_long_as_they_answer() {
    let Some(cluster) = Cluster::new("workloads-probed") else {
        return;
    };
    let (server, node) = (&cluster.server, &cluster.node);
    let addresses = format!("addr add {DATABASE}/32 dev lo\naddr add {WEB}/32 dev lo\n");
    node.configure(&addresses).unwrap();
    server.put(definition(WORKLOADS, &["v1alpha1"]));
    server.put(selecting("db", "10.96.0.20"));
    let listener = listen(node, DATABASE, PORT);
    let machine = Web::start(node);
    server.put(database());
    server.put(web());
    // One that asks for nothing is left alone.
    server.put(workload("by-hand", "192.0.2.3"));
    let one = cluster.start_with("one", 18_210, &["--probe"]);
    let two = cluster.start_with("two", 18_212, &["--probe"]);
    let expect = |database: bool, web: bool| {
        let expected = [("by-hand", true), ("database", database), ("web", web)];
        cluster.await_published("db", &expected, &one.process);
    };
    expect(true, true);
    let probed = "shunt_controller_probed_workloads";
    let counts = || [&one, &two].map(|one| one.metric(&cluster, probed));
    let [first, second] = counts();
    assert_eq!(
        first + second,
        2,
        "the one that leads looks, and nobody else"
    );

    drop(listener);
    expect(false, true);
    machine.status.store(503, Ordering::Relaxed);
    expect(false, false);
    let ready = cluster.ready(&web());
    assert_eq!(
        (&ready["status"], &ready["reason"]),
        (&json!("False"), &json!("ProbeFailed"))
    );
    // The message has no status code: the condition must be no way to ask other hosts.
    let message = ready["message"].as_str().unwrap();
    assert!(message.contains("wrong status"), "{ready}");
    assert!(
        !message.contains(|c: char| c.is_ascii_digit()),
        "no number of the peer: {ready}"
    );
    let ready = cluster.ready(&database());
    assert!(
        ready["message"].as_str().unwrap().contains("refused"),
        "{ready}"
    );
    let listener = listen(node, DATABASE, PORT);
    expect(true, false);
    machine.status.store(204, Ordering::Relaxed);
    expect(true, true);

    // Nothing is written but transitions, however often it is looked.
    let (leader, other) = if first == 2 { (one, two) } else { (two, one) };
    let looks = "shunt_controller_probes_total{result=\"success\"}";
    let before = leader.metric(&cluster, looks);
    wait_until("it is looked again and again", SOON, || {
        (leader.metric(&cluster, looks) > before + 6).then_some(())
    })
    .unwrap();
    let changes = || ["by-hand", "database", "web"].map(|name| cluster.status_changes(name));
    assert_eq!(changes(), [0, 3, 3]);
    // Another writer's status is not the probe's result.
    server.set_status(&database(), readiness(false));
    wait_until("it is ready again", SOON, || {
        (cluster.ready(&database())["reason"] == "ProbeSucceeded").then_some(())
    })
    .unwrap();
    // The next one that leads looks for itself, and finds all as it is.
    let before = changes();
    assert!(leader.process.stop().unwrap().success());
    wait_until("the other one looks", SOON, || {
        (other.metric(&cluster, looks) > 4).then_some(())
    })
    .unwrap_or_else(|error| panic!("{error}\n{}", other.process.log()));
    assert_eq!(changes(), before);
    // One that does not ask any more stays as it was.
    server.put(with(database(), "/spec/readinessProbe", Value::Null));
    wait_until("it is left alone", SOON, || {
        (other.metric(&cluster, probed) == 1).then_some(())
    })
    .unwrap();
    drop(listener);
    machine.status.store(500, Ordering::Relaxed);
    wait_until("web is not ready", SOON, || {
        (cluster.ready(&web())["status"] == "False").then_some(())
    })
    .unwrap();
    assert_eq!(cluster.ready(&database())["status"], "True");
}

#[test]
fn linkerds_workloads_are_looked_at_only_if_that_is_said() {
    let Some(cluster) = Cluster::new("workloads-probed-linkerd") else {
        return;
    };
    let (server, node) = (&cluster.server, &cluster.node);
    let addresses = format!("addr add {DATABASE}/32 dev lo\naddr add {WEB}/32 dev lo\n");
    node.configure(&addresses).unwrap();
    server.put(definition(WORKLOADS, &["v1alpha1"]));
    server.put(definition(LINKERDS, &["v1beta1"]));
    server.put(selecting("db", "10.96.0.20"));
    let _listener = listen(node, DATABASE, PORT);
    let unready = with(linkerds("theirs", DATABASE), "/status", json!({}));
    let probe = json!({ "tcpSocket": { "port": PORT }, "periodSeconds": 1 }).to_string();
    let annotations = json!({ "workload.shunt.io/readiness-probe": probe });
    server.put(and(unready, "/metadata", "annotations", annotations));
    server.put(database());
    let both = ["--external-workloads", "shunt,linkerd", "--probe"];
    let one = cluster.start_with("one", 18_214, &both);
    cluster.await_published("db", &[("database", true), ("theirs", false)], &one.process);
    let probed = "shunt_controller_probed_workloads";
    assert_eq!(one.metric(&cluster, probed), 1);
    assert!(one.process.stop().unwrap().success());
    let theirs = ["--external-workloads", "linkerd", "--probe=linkerd"];
    let two = cluster.start_with("two", 18_216, &theirs);
    cluster.await_published("db", &[("theirs", true)], &two.process);
    assert_eq!(two.metric(&cluster, probed), 1);
}
