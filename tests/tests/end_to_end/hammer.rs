//! No empty window: a service is hammered with new connections while its backends are replaced
//! as fast as the agent can.
//!
//! `SHUNT_REPLACEMENTS` sets the number.

use std::{
    env,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use shunt_tests::{
    Answer, Failure, Namespace, Target, Transport, addresses, by_length, wait_until,
};

use crate::world::{REQUEST, World, resync_with};

/// Room for the entries of some minutes: connections are made faster than they are forgotten.
const CONNTRACK: &str = "2097152";

/// Number of times that the set is replaced, by default.
const REPLACEMENTS: u64 = 5000;
const MANY_REPLACEMENTS: u64 = 50_000;

/// Every so many replacements come as a Resync.
const RESYNC: u64 = 50;

/// Number of connections to wait for, and of replacements between two waits, so that a fast agent
/// does not run ahead of the clients.
const BREATH: (u64, u64) = (50, 10);

/// The pause between two requests of one flow or connection; connections are hammered without.
const PAUSE: Duration = Duration::from_millis(1);

/// The ports that each backend pod serves: nine backends in all.
const PORTS: [u16; 3] = [8080, 8081, 8082];

/// Number of backends of a set.
const SET: usize = 3;

const CLUSTER_IP: &str = "10.96.0.10";
const PORT: u16 = 80;
const NODE_PORT: u16 = 30080;

/// A set of backends, and when it came into force: not before `sent`, not after `applied`.
struct Published {
    sent: Instant,
    applied: Instant,
    backends: Vec<SocketAddr>,
}

/// All sets that were published, in order.
#[derive(Default)]
struct History(Vec<Published>);

impl History {
    /// Returns whether the backend was in the set that was in force at `started` or in one that was
    /// published until `ended`.
    fn allows(&self, backend: SocketAddr, started: Instant, ended: Instant) -> bool {
        let Self(sets) = self;
        let first = sets.partition_point(|set| set.applied <= started);
        let end = sets.partition_point(|set| set.sent <= ended);
        let mut sets = sets[first.saturating_sub(1)..end].iter();
        sets.any(|set| set.backends.contains(&backend))
    }
}

/// One connection, or one request of a flow.
struct Sample {
    started: Instant,
    ended: Instant,
    outcome: Result<SocketAddr, Failure>,
}

/// A thread that does one thing over and over.
struct Client {
    stop: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
    thread: JoinHandle<Vec<Sample>>,
}

impl Client {
    fn start(
        namespace: &Namespace,
        pause: Duration,
        mut ask: impl FnMut() -> Result<Answer, Failure> + Send + 'static,
    ) -> Self {
        let (stop, count) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let thread = namespace.enter(|| {
            let (stop, count) = (Arc::clone(&stop), Arc::clone(&count));
            thread::spawn(move || {
                let mut samples = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let started = Instant::now();
                    let outcome = ask().map(|answer| answer.backend);
                    let ended = Instant::now();
                    samples.push(Sample {
                        started,
                        ended,
                        outcome,
                    });
                    count.fetch_add(1, Ordering::Relaxed);
                    if !pause.is_zero() {
                        thread::sleep(pause);
                    }
                }
                samples
            })
        });
        Self {
            stop,
            count,
            thread,
        }
    }

    /// Opens connection after connection.
    fn hammer(namespace: &Namespace, target: Target, transport: Transport) -> Self {
        Self::start(namespace, Duration::ZERO, move || match transport {
            Transport::Tcp => {
                let mut connection = target.connect()?;
                let answer = connection.echo(REQUEST)?;
                // Otherwise the ports would run out.
                connection.reset()?;
                Ok(answer)
            }
            Transport::Udp => target.flow()?.ask(REQUEST),
        })
    }

    fn stop(self) -> Vec<Sample> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// The service with these backends behind both of its ports.
fn service(backends: &[SocketAddr]) -> Value {
    let backends: Vec<_> = backends
        .iter()
        .map(|at| {
            let local = at.ip() != addresses::POD_D;
            json!({ "ip": at.ip(), "port": at.port(), "local": local })
        })
        .collect();
    json!({
        "id": { "namespace": "default", "name": "hammered" },
        "cluster_ips": [CLUSTER_IP],
        "ports": {
            "tcp": { "protocol": "TCP", "port": PORT, "node_port": NODE_PORT },
            "udp": { "protocol": "UDP", "port": PORT, "node_port": NODE_PORT },
        },
        "backends": { "tcp": backends, "udp": backends },
    })
}

/// The `round`th set of the nine: shifted by one from the last, or with none in common.
fn set(all: &[SocketAddr], round: u64, overlap: bool) -> Vec<SocketAddr> {
    let step = if overlap { 1 } else { SET };
    let first = round as usize * step;
    (first..first + SET)
        .map(|index| all[index % all.len()])
        .collect()
}

#[test]
#[expect(
    clippy::too_many_lines,
    reason = "one story, whose end needs its begin"
)]
fn replacing_backends_leaves_no_empty_window() {
    let Some(mut world) = World::with_conntrack(CONNTRACK) else {
        return;
    };
    let pods = ["pod-a", "pod-b", "pod-d"];
    for pod in pods {
        world.sandbox.serve(pod, &PORTS).unwrap();
    }
    let of_port = |port: u16| pods.map(|pod| world.sandbox.pod(pod).at(port));
    let all: Vec<SocketAddr> = PORTS.into_iter().flat_map(of_port).collect();
    let replacements = env::var("SHUNT_REPLACEMENTS").map_or_else(
        |_| by_length(REPLACEMENTS, MANY_REPLACEMENTS),
        |value| value.parse().unwrap(),
    );

    let mut history = History::default();
    let mut publish = |world: &mut World, round: u64, overlap: bool| {
        let backends = set(&all, round, overlap);
        let service = service(&backends);
        let event = if round % RESYNC == RESYNC - 1 {
            resync_with(&[service])
        } else {
            json!({ "event": "UpdateService", "service": service }).to_string()
        };
        let sent = Instant::now();
        world.apply(&event);
        history.0.push(Published {
            sent,
            applied: Instant::now(),
            backends,
        });
    };
    publish(&mut world, 0, true);

    let cluster_ip: IpAddr = CLUSTER_IP.parse().unwrap();
    let inside = SocketAddr::new(cluster_ip, PORT);
    let outside = SocketAddr::new(addresses::NODE, NODE_PORT);
    let (pod, internet) = (world.client_pod(), world.sandbox.outside());
    let (tcp, udp) = (Transport::Tcp, Transport::Udp);
    let hammers: Vec<Client> = [
        (pod, inside, tcp),
        (pod, inside, tcp),
        (pod, inside, udp),
        (internet, outside, tcp),
        (internet, outside, udp),
    ]
    .into_iter()
    .map(|(from, at, transport)| Client::hammer(from, Target::new(transport, at), transport))
    .collect();
    // Besides, a flow that has to follow the sets, and a connection that does not.
    let flow = pod.enter(|| Target::udp(inside).flow().unwrap());
    let flow = Client::start(pod, PAUSE, move || flow.ask(REQUEST));
    let mut connection = pod.enter(|| Target::tcp(inside).connect().unwrap());
    let connection = Client::start(pod, PAUSE, move || connection.echo(REQUEST));
    let before = pod.repeated_syns().unwrap() + internet.repeated_syns().unwrap();

    let begin = Instant::now();
    let made = || -> u64 {
        let counts = hammers.iter().map(|client| &client.count);
        counts.map(|count| count.load(Ordering::Relaxed)).sum()
    };
    for round in 1..=replacements {
        publish(&mut world, round, round % 2000 < 1000);
        if round % BREATH.1 == 0 {
            let goal = made() + BREATH.0;
            wait_until("more connections", Duration::from_secs(20), || {
                (made() >= goal).then_some(())
            })
            .unwrap();
        }
    }
    let took = begin.elapsed();

    let samples: Vec<Sample> = hammers.into_iter().flat_map(Client::stop).collect();
    let (flow, connection) = (flow.stop(), connection.stop());
    let repeated = world.client_pod().repeated_syns().unwrap()
        + world.sandbox.outside().repeated_syns().unwrap();
    let failed = |samples: &[Sample]| samples.iter().filter(|s| s.outcome.is_err()).count();
    let strangers = |samples: &[Sample]| {
        let answered = samples.iter().filter_map(|sample| {
            let backend = *sample.outcome.as_ref().ok()?;
            Some(history.allows(backend, sample.started, sample.ended))
        });
        answered.filter(|allowed| !allowed).count()
    };
    println!(
        "{} new connections during {replacements} replacements in {took:.1?}: {} failed, {} were \
         answered by a backend of neither set, {} SYNs were repeated; one flow asked {} times, \
         one connection {} times",
        samples.len(),
        failed(&samples),
        strangers(&samples),
        repeated - before,
        flow.len(),
        connection.len(),
    );
    let mut all = samples.iter().chain(&flow).chain(&connection);
    let first = all.find_map(|sample| sample.outcome.as_ref().err());
    assert!(first.is_none(), "the first failure: {first:?}");
    assert_eq!(
        strangers(&samples),
        0,
        "answers from neither the old nor the new set"
    );
    assert_eq!(strangers(&flow), 0, "a flow follows the sets");
    let mut partners = connection
        .iter()
        .filter_map(|sample| sample.outcome.as_ref().ok());
    let partner = partners.next();
    assert!(
        partners.all(|other| Some(other) == partner),
        "a connection stays"
    );
    // A client that resets a connection and uses its port again asks the backend of that connection first.
    let left = world.shunt(&["status", "-o", "json"]).json()["counters"]["drop_gone"]
        .as_u64()
        .unwrap();
    assert!(
        repeated - before <= left,
        "no other SYN is lost: {repeated} of {left}"
    );
}
