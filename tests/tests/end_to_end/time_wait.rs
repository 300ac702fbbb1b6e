//! A client port that goes from one frontend to another with the same backend, whose kernel still
//! has the last connection from there in TIME-WAIT, beside nftables' DNAT.

use std::{
    net::{Ipv4Addr, SocketAddr},
    thread,
    time::{Duration, Instant},
};

use shunt_tests::{Connection, Failure, Namespace, Target, Transport, addresses, by_length};

use crate::{
    attack::{snapshot, try_when_free},
    control,
    dual_stack::{Family, service, world},
    world::REQUEST,
};

/// Two services with one backend.
const FRONTENDS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 96, 0, 10), Ipv4Addr::new(10, 96, 0, 11)];

/// Number of ports, each used by a thread of its own.
const PORTS: u16 = 8;

/// Counts of a run.
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

/// A connection, unless none of its SYNs opens one in time.
fn connect(target: Target) -> Option<Connection> {
    match try_when_free(target) {
        Err(Failure::TimedOut) => None,
        connection => Some(connection.unwrap()),
    }
}

/// Uses each port at one frontend after the other; the backend ends each connection.
fn run(client: &Namespace, family: Family, time: Duration) -> Seen {
    let before = client.repeated_syns().unwrap();
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
                            let at = SocketAddr::from((family.of(frontend.into()), 80));
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
        again: client.repeated_syns().unwrap() - before,
        failed,
    }
}

#[test]
fn no_more_syns_are_sent_again_than_with_nftables() {
    let rules = FRONTENDS.map(|frontend| control::rule(frontend, &[addresses::POD_A]));
    let Some(rules) = control::ruled(&rules) else {
        return;
    };
    let mut world = world().unwrap();
    let web = service(&world, Transport::Tcp, &["pod-a"]);
    let services = FRONTENDS.map(|frontend| {
        let both = Family::BOTH.map(|family| family.of(frontend.into()));
        let mut json = web.json();
        json["id"]["name"] = format!("s{frontend}").into();
        json["cluster_ips"] = serde_json::json!(both);
        json["external_ips"] = serde_json::json!([]);
        json["ports"]["main"]
            .as_object_mut()
            .unwrap()
            .remove("node_port");
        json
    });
    world.apply(&snapshot(&services));

    let time = by_length(Duration::from_secs(2), Duration::from_secs(20));
    // The rules are for IPv4 alone.
    let netfilter = run(rules.pod("pod-c").namespace(), Family::V4, time);
    println!("nftables: {netfilter:?}");
    for family in Family::BOTH {
        let ours = run(world.client_pod(), family, time);
        println!("shunt, {family:?}: {ours:?}");
        assert_eq!(ours.failed, 0, "{ours:?}");
        assert!(
            ours.share() <= netfilter.share(),
            "of a thousand SYNs are sent again: {} with nftables, {} here",
            netfilter.share(),
            ours.share()
        );
    }
}
