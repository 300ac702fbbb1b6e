//! Connections in each state that one can be in, and sockets of the node, while something else is done.

use std::{
    net::SocketAddr,
    thread::{self, JoinHandle},
    time::Duration,
};

use serde_json::Value;
use shunt_tests::{
    Cgroup, Connection, Failure, Flow, HalfClosed, Namespace, Target, Transport, wait_until,
};

use crate::{
    service::Service,
    syscalls::Caller,
    world::{REQUEST, World},
};

const SOON: Duration = Duration::from_secs(10);

/// The time for which a client sends its SYN again.
const OPENING: Duration = Duration::from_mins(5);

/// More than the sockets of both sides hold.
const SENT: u64 = 16 << 20;

/// The clients' first port, below those that the kernel chooses; each round has some of its own.
const PORT: u16 = 31_000;

/// The pods that serve.
const BACKENDS: [&str; 3] = ["pod-a", "pod-b", "pod-d"];

/// The table of nftables that drops the clients' packets at the backends.
const DEAF: &str = "silent";

/// A connection that is listed: its client's port, its state and its backend.
type Listed = (u16, String, Value);

/// Connections of a pod in each state but the established ones, of both families.
pub(crate) struct States {
    /// Their SYN was not answered.
    opening: Vec<(Target, JoinHandle<Result<Connection, Failure>>)>,
    /// Their datagram was not answered.
    unreplied: Vec<(Target, Flow)>,
    /// Their client has ended its direction.
    closing: Vec<HalfClosed>,
    /// Both sides have ended.
    ended: Vec<Target>,
    /// One side has reset.
    reset: Vec<Target>,
    listed: Vec<Listed>,
}

impl States {
    /// Opens them, with ports that no other round has.
    pub(crate) fn open(world: &World, [tcp, udp]: &[Service; 2], round: u16) -> Self {
        let pod = world.client_pod();
        // By default the kernel gives up after 127 s, less than a start may take on a busy machine. Where it can
        // (since Linux 6.5), it sends each second, so that the end of the wait is soon noticed.
        pod.set("net/ipv4/tcp_syn_retries", "127").unwrap();
        drop(pod.set("net/ipv4/tcp_syn_linear_timeouts", "127"));
        let port = PORT + 10 * round;
        let [opening, unreplied, closing, ended, reset] =
            [0, 1, 2, 3, 4].map(|number| port + number);
        let families = |service: &Service| [service.cluster_ip(), service.cluster_ip_v6()];
        for backend in BACKENDS {
            let rules = format!(
                "table inet {DEAF} {{
                     chain input {{
                         type filter hook input priority 0;
                         meta l4proto {{ tcp, udp }} th sport {{ {opening}, {unreplied} }} drop
                     }}
                 }}"
            );
            nft(world.sandbox.pod(backend).namespace(), &rules);
        }
        let connect = |target: Target| {
            let mut connection = pod.enter(|| target.connect().unwrap());
            connection.echo(REQUEST).unwrap();
            connection
        };
        let mut states = Self {
            opening: Vec::new(),
            unreplied: Vec::new(),
            closing: Vec::new(),
            ended: Vec::new(),
            reset: Vec::new(),
            listed: Vec::new(),
        };
        for target in families(tcp) {
            let patient = target.from_port(opening).within(OPENING);
            let connecting = pod.enter(|| thread::spawn(move || patient.connect()));
            states.opening.push((patient, connecting));
            let closing = connect(target.from_port(closing));
            states.closing.push(closing.half_close(SENT).unwrap());
            let ended = target.from_port(ended);
            connect(ended).part().unwrap();
            states.ended.push(ended);
        }
        for target in families(udp) {
            let target = target.from_port(unreplied).within(Duration::from_secs(1));
            let flow = pod.enter(|| target.flow().unwrap());
            assert!(flow.ask(REQUEST).is_err(), "no backend hears it");
            states.unreplied.push((target, flow));
        }
        // Last, since they are soon forgotten.
        for target in families(tcp) {
            let reset = target.from_port(reset);
            connect(reset).reset().unwrap();
            states.reset.push(reset);
        }
        let expected = [
            (opening, "SYN_SENT"),
            (unreplied, "UNREPLIED"),
            (closing, "CLOSING"),
            (ended, "TIME_WAIT"),
            (reset, "CLOSED"),
        ];
        let ports = expected.map(|(port, _)| port);
        // One of each family.
        let expected = expected.map(|each| [each; 2]);
        let mut seen = Vec::new();
        let all = wait_until("every state", SOON, || {
            seen = listed(world, &ports);
            let states = seen.iter().map(|(port, state, _)| (*port, state.as_str()));
            states
                .eq(expected.as_flattened().iter().copied())
                .then_some(())
        });
        assert!(all.is_ok(), "{expected:?} must be listed, not {seen:?}");
        states.listed = seen;
        states
    }

    /// Checks that they are as they were. Those that have ended may be forgotten: their time is short, and they
    /// give way where traffic has filled the table.
    pub(crate) fn check(&self, world: &World) {
        let ports: Vec<u16> = self.listed.iter().map(|(port, ..)| *port).collect();
        let is_lasting = |listed: &&Listed| !["CLOSED", "TIME_WAIT"].contains(&listed.1.as_str());
        let before: Vec<&Listed> = self.listed.iter().filter(is_lasting).collect();
        let now = listed(world, &ports);
        let now: Vec<&Listed> = now.iter().filter(is_lasting).collect();
        assert_eq!(now, before);
    }

    /// Checks the end of each. The backend that received the first packet answers an opening connection. A half
    /// closed one receives the rest. An ended one leaves its port to the next connection.
    pub(crate) fn finish(self, world: &World) {
        let pod = world.client_pod();
        for backend in BACKENDS {
            let delete = format!("delete table inet {DEAF}\n");
            nft(world.sandbox.pod(backend).namespace(), &delete);
        }
        let of = |target: &Target, flow: SocketAddr, answered: SocketAddr| {
            let there = self.listed.iter().filter(|(port, ..)| *port == flow.port());
            let backend = |listed: &&Listed| listed.2["ip"] == answered.ip().to_string();
            assert_eq!(
                there.filter(backend).count(),
                1,
                "{target:?} leads to {answered}, not as it did: {:?}",
                self.listed
            );
        };
        for (target, connecting) in self.opening {
            let mut connection = connecting.join().unwrap().unwrap();
            let answer = connection.echo(REQUEST).unwrap();
            of(&target, connection.client(), answer.backend);
            connection.part().unwrap();
        }
        for (target, flow) in &self.unreplied {
            let answer = flow.ask(REQUEST).unwrap();
            of(target, answer.client, answer.backend);
        }
        for closing in self.closing {
            closing.receive().unwrap();
        }
        for target in self.ended.iter().chain(&self.reset) {
            let mut connection = pod.enter(|| target.connect().unwrap());
            connection.echo(REQUEST).unwrap();
            connection.part().unwrap();
        }
    }
}

/// Loads these rules of nftables in the namespace.
fn nft(namespace: &Namespace, rules: &str) {
    namespace
        .run_with_input("nft", &["-f", "-"], rules)
        .unwrap();
}

/// Returns the connections with these clients' ports, sorted.
fn listed(world: &World, ports: &[u16]) -> Vec<Listed> {
    let all = world.shunt(&["conntrack", "-o", "json"]).json();
    let rows = all.as_array().unwrap().iter();
    let rows = rows.map(|row| {
        let port = row["client"]["port"].as_u64().unwrap() as u16;
        (
            port,
            row["state"].as_str().unwrap().to_owned(),
            row["backend"].clone(),
        )
    });
    let mut rows: Vec<Listed> = rows.filter(|(port, ..)| ports.contains(port)).collect();
    rows.sort_by_key(|(port, state, backend)| (*port, state.clone(), backend.to_string()));
    rows
}

/// Sockets of a process of the node that are connected to frontends.
pub(crate) struct Sockets {
    caller: Caller,
    open: Vec<Open>,
}

struct Open {
    /// Its name, which is its transport and family.
    name: String,
    frontend: SocketAddr,
    /// The backend that has answered, in the words of the process.
    backend: String,
}

impl Sockets {
    /// Connects one of each transport and family.
    pub(crate) fn open(cgroup: &Cgroup, world: &World, services: &[Service; 2]) -> Self {
        let mut caller = Caller::start(cgroup, world.sandbox.node());
        let mut open = Vec::new();
        for (transport, service) in [Transport::Tcp, Transport::Udp].into_iter().zip(services) {
            for target in [service.cluster_ip(), service.cluster_ip_v6()] {
                let frontend = target.address();
                let family = if frontend.is_ipv4() { 4 } else { 6 };
                let name = format!("{transport}{family}").to_lowercase();
                caller.calls(&format!(
                    "open {name} {name} -> ok; connect {name} {frontend} -> ok"
                ));
                let backend = ask(&mut caller, &name);
                open.push(Open {
                    name,
                    frontend,
                    backend,
                });
            }
        }
        Self { caller, open }
    }

    /// Checks that each still has its frontend as its peer, and that the same backend answers.
    pub(crate) fn check(&mut self) {
        let Self { caller, open } = self;
        for Open {
            name,
            frontend,
            backend,
        } in open
        {
            caller.calls(&format!("getpeername {name} -> {frontend}"));
            assert_eq!(ask(caller, name), *backend, "{name}");
        }
    }
}

/// Sends a request by a socket. Returns the backend that answers: its name and, of a datagram, the address
/// that the process sees.
fn ask(caller: &mut Caller, socket: &str) -> String {
    let receive = if socket.starts_with("tcp") {
        "recv"
    } else {
        "recvfrom"
    };
    caller.calls(&format!("send {socket} text -> ok"));
    let answer = caller.call(&format!("{receive} {socket}"));
    let (answered, _) = answer
        .split_once(" saw ")
        .unwrap_or_else(|| panic!("{socket} must be answered, but: {answer}"));
    answered.to_owned()
}
