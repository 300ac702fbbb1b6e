//! Connections of every kind that stay open while something else is done.

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use serde_json::Value;
use shunt_tests::{Answer, Connection, Flow, Namespace, Sandbox, Target, addresses};

use crate::{
    service::Service,
    world::{REQUEST, SERVED, World},
};

/// Largest number of connections that are opened until each backend has one.
const TRIES: usize = 200;

/// Number of bytes that a connection carries each time: several segments.
const CARRIED: usize = 50_000;

/// Pause of the datagrams while something else is done.
const PAUSE: Duration = Duration::from_secs(1);

/// Flows with what was seen of each when it was opened.
pub(crate) struct Flows {
    connections: Vec<(Target, Connection, Answer)>,
    datagrams: Vec<(Target, Flow, Answer)>,
}

impl Flows {
    /// Opens connections from a pod, from outside and, as a hairpin, from a backend, over both
    /// families: to backends here and, masqueraded, on the other node.
    pub(crate) fn open(sandbox: &Sandbox, [tcp, udp]: &[Service; 2]) -> Self {
        let (pod, outside) = (sandbox.pod("pod-c").namespace(), sandbox.outside());
        let mut flows = Self {
            connections: Vec::new(),
            datagrams: Vec::new(),
        };
        let all = ["pod-a", "pod-b", "pod-d"];
        for (from, target) in [(pod, tcp.cluster_ip()), (outside, tcp.node_port())] {
            flows.connect(from, target, &all.map(|pod| sandbox.pod(pod).at(SERVED)));
            let target = target.to(addresses::v6(target.address().ip()));
            if from.name() == pod.name() {
                flows.connect(from, target, &all.map(|pod| sandbox.pod(pod).at_v6(SERVED)));
            }
        }
        let own = sandbox.pod("pod-a").namespace();
        flows.connect(own, tcp.cluster_ip(), &[sandbox.pod("pod-a").at(SERVED)]);
        for (from, target) in [
            (pod, udp.cluster_ip()),
            (pod, udp.cluster_ip_v6()),
            (outside, udp.node_port()),
        ] {
            for _ in 0..5 {
                let flow = from.enter(|| target.flow().unwrap());
                let answer = flow.ask(REQUEST).unwrap();
                flows.datagrams.push((target, flow, answer));
            }
        }
        flows
    }

    /// Opens connections until each of `backends` has one; these stay.
    fn connect(&mut self, from: &Namespace, target: Target, backends: &[SocketAddr]) {
        let mut missing: BTreeSet<SocketAddr> = backends.iter().copied().collect();
        for _ in 0..TRIES {
            if missing.is_empty() {
                return;
            }
            let mut connection = from.enter(|| target.connect().unwrap());
            let answer = connection.echo(REQUEST).unwrap();
            if missing.remove(&answer.backend) {
                self.connections.push((target, connection, answer));
            }
        }
        panic!("{target:?} never led to {missing:?}");
    }

    /// Each of them goes on with its backend, which sees the same client.
    pub(crate) fn check(&mut self) {
        for (target, connection, first) in &mut self.connections {
            let answer = connection.echo(CARRIED).unwrap();
            same(target, first, &answer);
        }
        for (target, flow, first) in &self.datagrams {
            let answer = flow.ask(REQUEST).unwrap();
            same(target, first, &answer);
        }
    }

    /// Does something while datagrams go on: in an emulated machine a list takes longer than a silent flow
    /// is remembered.
    fn while_they_speak<T>(&self, act: impl FnOnce() -> T) -> T {
        thread::scope(|scope| {
            let (_over, is_over) = mpsc::channel::<()>();
            scope.spawn(move || {
                while is_over.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
                    for (_, flow, _) in &self.datagrams {
                        flow.ask(REQUEST).unwrap();
                    }
                }
            });
            act()
        })
    }

    /// These and those of `other`.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.connections.extend(other.connections);
        self.datagrams.extend(other.datagrams);
        self
    }

    /// Each of them goes on, and `shunt conntrack` lists it. On a busy machine a flow may have been silent for longer
    /// than it is remembered.
    pub(crate) fn check_listed(&mut self, world: &World) {
        self.check();
        let listed = self.while_they_speak(|| world.shunt(&["conntrack", "-o", "json"]).json());
        let listed = listed.as_array().unwrap();
        let connections = self.connections.iter();
        let connections = connections.map(|(target, _, answer)| (target, answer));
        let datagrams = self.datagrams.iter();
        let datagrams = datagrams.map(|(target, _, answer)| (target, answer));
        for (target, answer) in connections.chain(datagrams) {
            let at = |place: &Value, address: SocketAddr| {
                place["ip"] == plain(address.ip()).to_string() && place["port"] == address.port()
            };
            let is_it = |row: &Value| {
                at(&row["client"], answer.client)
                    && at(&row["frontend"], target.address())
                    && at(&row["backend"], answer.backend)
            };
            assert!(
                listed.iter().any(is_it),
                "{answer:?} to {target:?} must be listed, among {}",
                listed.len()
            );
        }
    }
}

fn same(target: &Target, first: &Answer, now: &Answer) {
    assert_eq!(
        (now.backend, now.peer),
        (first.backend, first.peer),
        "a flow to {target:?} keeps its backend and its source"
    );
}

/// An IPv4 address as itself, where a socket of both families shows it as one of IPv6.
fn plain(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(ip, IpAddr::V4),
        IpAddr::V4(_) => ip,
    }
}
