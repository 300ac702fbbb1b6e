//! A client port that goes from one frontend to another with the same backend, whose kernel still
//! has the last connection from there in TIME-WAIT, beside nftables' DNAT.

use std::{
    fs,
    io::ErrorKind,
    net::{Ipv4Addr, SocketAddr, SocketAddrV4},
    thread,
    time::{Duration, Instant},
};

use shunt_tests::{
    Connection, Failure, Namespace, Sandbox, Target, Transport, addresses, by_length, is_root,
    rulesets::{self, nftables},
    wait_until,
};

use crate::{
    service::Service,
    world::{REQUEST, SERVED, World, resync_with},
};

/// Two services with one backend.
const FRONTENDS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 96, 0, 10), Ipv4Addr::new(10, 96, 0, 11)];

/// How many ports there are, each used by a thread of its own.
const PORTS: u16 = 8;

/// How long the kernel may hold a port.
const SOON: Duration = Duration::from_secs(3);

/// What a run has seen.
#[derive(Debug, Clone, Copy)]
struct Seen {
    connections: u64,
    again: u64,
    /// Connections that none of their SYNs opened in time.
    failed: u64,
}

impl Seen {
    /// SYNs that were sent again, of a thousand connections.
    fn share(self) -> u64 {
        self.again * 1000 / self.connections.max(1)
    }
}

/// How many SYNs the namespace has sent again.
fn syns_sent_again(namespace: &Namespace) -> u64 {
    let text = namespace.enter(|| fs::read_to_string("/proc/thread-self/net/netstat").unwrap());
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let mut both = names.split(' ').zip(values.split(' '));
    let (_, value) = both.find(|(name, _)| *name == "TCPSynRetrans").unwrap();
    value.parse().unwrap()
}

/// A connection, unless none of its SYNs opens one in time.
fn connect(target: Target) -> Option<Connection> {
    let busy = [ErrorKind::AddrNotAvailable, ErrorKind::AddrInUse];
    let connected = wait_until("the port is free", SOON, || match target.connect() {
        Err(Failure::Other(error)) if busy.contains(&error.kind()) => None,
        outcome => Some(outcome),
    });
    match connected.unwrap() {
        Err(Failure::TimedOut) => None,
        connection => Some(connection.unwrap()),
    }
}

/// Uses each port at one frontend after the other; the backend ends each connection.
fn run(client: &Namespace, time: Duration) -> Seen {
    let before = syns_sent_again(client);
    let end = Instant::now() + time;
    let (connections, failed) = client.enter(|| {
        thread::scope(|scope| {
            let threads: Vec<_> = (0..PORTS)
                .map(|port| {
                    scope.spawn(move || {
                        let (mut count, mut failed) = (0, 0);
                        for frontend in FRONTENDS.into_iter().cycle() {
                            if Instant::now() >= end {
                                break;
                            }
                            let at = SocketAddr::from((frontend, 80));
                            let target = Target::tcp(at).from_port(13_000 + port);
                            let Some(mut connection) = connect(target) else {
                                failed += 1;
                                continue;
                            };
                            connection.echo(REQUEST).unwrap();
                            connection.part().unwrap();
                            count += 1;
                        }
                        (count, failed)
                    })
                })
                .collect();
            let counts = threads.into_iter().map(|thread| thread.join().unwrap());
            counts.fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1))
        })
    });
    Seen {
        connections,
        again: syns_sent_again(client) - before,
        failed,
    }
}

#[test]
fn no_more_syns_are_sent_again_than_with_nftables() {
    if !is_root() {
        eprintln!("skipped: needs root");
        return;
    }
    let mut rules = Sandbox::new().unwrap();
    rules.serve("pod-a", &[SERVED]).unwrap();
    let SocketAddr::V4(backend) = rules.pod("pod-a").at(SERVED) else {
        panic!("pods have IPv4 addresses")
    };
    let text = nftables::load(&node(), &FRONTENDS.map(|frontend| rule(frontend, backend)));
    let loaded = rules.node().run_with_input("nft", &["-f", "-"], &text);
    loaded.unwrap();

    let mut world = World::new().unwrap();
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    let services = FRONTENDS.map(|frontend| {
        let mut json = service.json();
        json["id"]["name"] = format!("s{frontend}").into();
        json["cluster_ips"] = serde_json::json!([frontend]);
        json["external_ips"] = serde_json::json!([]);
        json["ports"]["main"]
            .as_object_mut()
            .unwrap()
            .remove("node_port");
        json
    });
    world.apply(&resync_with(&services));

    let time = by_length(Duration::from_secs(2), Duration::from_secs(20));
    let netfilter = run(rules.pod("pod-c").namespace(), time);
    let ours = run(world.client_pod(), time);
    println!("nftables: {netfilter:?}; shunt: {ours:?}");
    assert_eq!(ours.failed, 0, "{ours:?}");
    assert!(
        ours.share() <= netfilter.share() + 5,
        "of a thousand SYNs are sent again: {} with nftables, {} here",
        netfilter.share(),
        ours.share()
    );
}

fn node() -> rulesets::Node {
    let std::net::IpAddr::V4(address) = addresses::NODE else {
        panic!("nodes have IPv4 addresses")
    };
    rulesets::Node {
        address,
        pod_cidr: "10.1.0.0/16".to_owned(),
        service_cidr: "10.96.0.0/16".to_owned(),
    }
}

fn rule(frontend: Ipv4Addr, backend: SocketAddrV4) -> rulesets::Service {
    rulesets::Service {
        name: format!("s{}", frontend.octets()[3]),
        protocol: Transport::Tcp,
        cluster_ip: frontend,
        port: 80,
        node_port: None,
        endpoints: vec![backend],
    }
}
