//! A backend leaves that many sockets of the node are connected to, among more that are not.

use std::{
    cell::RefCell,
    net::{Ipv4Addr, SocketAddr, SocketAddrV4},
    path::Path,
    sync::mpsc::TryRecvError,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use serde_json::json;
use shunt_tests::own_cgroup;

use super::{
    agent::{Subject, milliseconds},
    sockets::{Sockets, make_room},
    world::WIDE,
};
use crate::{
    bench::Bench,
    measure::{Better, Bound, Limit, Sample, Study, sample},
};

const NAME: &str = "control/stale-sockets";

/// Limit of the time until the last stale socket is gone, in milliseconds.
const GONE: f64 = 1000.0;

/// Limit of the 99th percentile of events meanwhile, in microseconds.
const EVENT: f64 = 1000.0;

/// Least number of events that follow the removal. Another backend leaves by each, so the agent
/// looks for stale sockets all the time.
const CHANGES: usize = 1000;

/// Numbers of sockets.
#[derive(Debug, Clone, Copy)]
struct Numbers {
    /// UDP sockets on the backend that leaves.
    stale: u32,
    /// UDP sockets on other backends.
    live: u32,
    /// TCP connections, each of two sockets.
    connections: u32,
}

/// 100,000 sockets, and a tenth of them.
const MANY: Numbers = Numbers {
    stale: 10_000,
    live: 50_000,
    connections: 20_000,
};
const FEW: Numbers = Numbers {
    stale: 1_000,
    live: 5_000,
    connections: 2_000,
};

/// The services: one whose backend leaves, and two that stay.
const LEAVING: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 97, 0, 1), 53);
const STAYING: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 97, 0, 2), 53);
const STREAMS: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 97, 0, 3), 80);

/// The port of all their backends.
const BACKEND_PORT: u16 = 8080;

/// The places of the backends: that which leaves, that which comes instead, and those that stay.
const LEAVES: u8 = 1;
const COMES: u8 = 2;
const STAY: [u8; 5] = [11, 12, 13, 14, 15];
const STREAM_BACKEND: u8 = 21;

/// An agent with the services of a world, and processes of its node with sockets.
struct Node {
    subject: Subject,
    changes: u32,
    stale: Sockets,
    others: Vec<Sockets>,
}

/// Runs the study.
///
/// # Errors
///
/// If an agent or a socket does not do as it should.
pub(super) fn run(bench: &mut Bench) -> Result<()> {
    if !bench.wants(NAME) {
        return Ok(());
    }
    let numbers = if bench.options().quick { FEW } else { MANY };
    let node = RefCell::new(Node::start(&bench.options().agent, numbers)?);
    let Numbers { stale, .. } = numbers;
    let subject = format!("{stale} of {}", numbers.all());
    bench.study(
        Study::new(NAME, "sockets on a backend that leaves", Better::Lower)
            .slow()
            .rounds(bench.rounds(7, 3))
            .subject(&subject, || node.borrow_mut().round())
            .bound(Bound::figure(
                "the last one is gone, ms",
                &subject,
                "gone, ms",
                Limit::AtMost(GONE),
            ))
            .bound(Bound::figure(
                "p99 of events meanwhile, us",
                &subject,
                "event p99, us",
                Limit::AtMost(EVENT),
            )),
    )?;
    node.into_inner().check()
}

impl Numbers {
    const fn all(self) -> u32 {
        self.stale + self.live + 2 * self.connections
    }
}

impl Node {
    fn start(binary: &Path, numbers: Numbers) -> Result<Self> {
        let Numbers {
            stale,
            live,
            connections,
        } = numbers;
        let cgroup = own_cgroup()?;
        let cgroup = cgroup.to_str().context("the cgroup's path is no text")?;
        let mut subject = Subject::start(binary, &["--socket-lb", "host", "--cgroup", cgroup])?;
        make_room(subject.namespace())?;
        subject.apply(&WIDE.resync())?;
        subject.apply(&service("leaving", LEAVING, "UDP", &[LEAVES]))?;
        subject.apply(&service("staying", STAYING, "UDP", &STAY))?;
        subject.apply(&service("streams", STREAMS, "TCP", &[STREAM_BACKEND]))?;
        let namespace = subject.namespace();
        let live = Sockets::udp(namespace, stale..stale + live, STAYING.into())?;
        let stale = Sockets::udp(namespace, 0..stale, LEAVING.into())?;
        let listener = SocketAddr::from((backend(STREAM_BACKEND), BACKEND_PORT));
        let streams = Sockets::tcp(namespace, connections, listener, STREAMS.into())?;
        Ok(Self {
            subject,
            changes: 0,
            stale,
            others: vec![live, streams],
        })
    }

    /// Has the backend leave. Returns how long it takes until no socket is on it, and what events take
    /// meanwhile.
    fn round(&mut self) -> Result<Sample> {
        let Self {
            subject,
            changes,
            stale,
            ..
        } = self;
        subject.apply(&service("leaving", LEAVING, "UDP", &[LEAVES]))?;
        stale.connect(LEAVING.into())?;
        let removal = service("leaving", LEAVING, "UDP", &[COMES]);
        let mut aborted = stale.aborted();
        let begin = Instant::now();
        subject.apply(&removal)?;
        let (mut times, mut gone) = (Vec::new(), Duration::ZERO);
        while !aborted.is_empty() || times.len() < CHANGES {
            *changes += 1;
            times.push(subject.apply(&WIDE.change(*changes))?.time);
            let mut waiting = Vec::new();
            for holder in aborted {
                match holder.try_recv() {
                    Ok(last) => gone = gone.max(last? - begin),
                    Err(TryRecvError::Empty) => waiting.push(holder),
                    Err(error) => return Err(error.into()),
                }
            }
            aborted = waiting;
        }
        times.sort();
        let event = |hundredth: usize| times[times.len() * hundredth / 100].as_secs_f64() * 1e6;
        Ok(sample([
            ("gone, ms", milliseconds(gone)),
            ("event p50, us", event(50)),
            ("event p99, us", event(99)),
        ]))
    }

    /// Makes sure that no other socket was destroyed.
    fn check(self) -> Result<()> {
        self.others.iter().try_for_each(Sockets::are_connected)
    }
}

/// The event that a service has its backends at these places.
fn service(name: &str, frontend: SocketAddrV4, protocol: &str, places: &[u8]) -> String {
    let backends: Vec<_> = places
        .iter()
        .map(|place| json!({"ip": backend(*place), "port": BACKEND_PORT, "local": true}))
        .collect();
    json!({
        "event": "UpdateService",
        "service": {
            "id": {"namespace": "default", "name": name},
            "cluster_ips": [frontend.ip()],
            "ports": {"main": {"protocol": protocol, "port": frontend.port()}},
            "backends": {"main": backends},
        },
    })
    .to_string()
}

/// The address of the backend at a place: the node's own.
const fn backend(place: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 200, 0, place)
}
