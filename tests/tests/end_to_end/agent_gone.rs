//! A node whose agent has died, and no other one starts.
//!
//! For an hour at 5,000 short connections a second directly, and at 400 a second through SNAT to one backend, a
//! table of the default size is used up 69 times, and the source ports to that backend 50 times. Nothing of the
//! programs' knows how long an agent is gone but by their clock, which goes on here as there; what an hour brings is
//! that all has to be used again, and again. So the table and the range of ports are as much smaller as there are
//! fewer connections: the full form uses both up more often than that hour, the short one once and more.

use std::{collections::BTreeSet, fs, thread};

use shunt_tests::{PinDir, Target, Transport, by_length, passing};

use crate::{
    attack::{both, listed, snapshot},
    dual_stack::{Family, service, world_with_flags},
    handover::dying_after,
    monitor::Monitor,
    pinned,
    world::{REQUEST, World, all_answered},
};

/// Entries: few enough that they are used up some times over, and so many that none is used up while
/// an answer is on its way, which on a busy machine may take a tenth of a second.
const ENTRIES: [&str; 2] = ["2048", "16384"];

/// Source ports of SNAT: fewer than connections that need one.
const PORTS: [(&str, usize); 2] = [("20000-20100", 101), ("20000-20300", 293)];

/// Small tables, and timeouts that let them be used again: a backend's kernel keeps nothing of a
/// connection that its client closed.
fn flags() -> [&'static str; 8] {
    [
        "--max-conntrack",
        by_length(ENTRIES[0], ENTRIES[1]),
        "--snat-ports",
        by_length(PORTS[0].0, PORTS[1].0),
        "--conntrack-tcp-timeout-time-wait",
        "1s",
        "--conntrack-udp-timeout",
        "2s",
    ]
}

/// Connections of each client, and clients of each kind.
const SHORT: u32 = 500;
const LONG: u32 = 150_000;

/// Time for which a service remembers its clients, in seconds.
const AFFINITY: u32 = 600;

/// Short connections; none may fail. Returns the source ports of those that came through SNAT.
fn many(target: Target, count: u32) -> Vec<u16> {
    let mut ports = Vec::new();
    for number in 0..count {
        match target.ask(REQUEST) {
            Ok(answer) if answer.source_kept() => {}
            Ok(answer) => ports.push(answer.peer.port()),
            Err(failure) => panic!("connection {number} to {target:?}: {failure}"),
        }
    }
    ports
}

/// There were more connections than ports.
#[track_caller]
fn assert_used_again(given: &[u16]) {
    let (_, count) = by_length(PORTS[0], PORTS[1]);
    let different: BTreeSet<_> = given.iter().collect();
    println!("{} connections got {} ports", given.len(), different.len());
    assert!(given.len() > count && different.len() <= count, "{count}");
}

#[test]
fn connections_begin_and_end_without_an_agent() {
    let Some(mut world) = world_with_flags(&flags()) else {
        return;
    };
    let services = [
        service(&world, Transport::Tcp, &["pod-a", "pod-b", "pod-d"]),
        service(&world, Transport::Udp, &["pod-a", "pod-b", "pod-d"]),
    ];
    let mut udp = services[1].json();
    udp["id"]["name"] = "dns".into();
    let snapshot = snapshot(&[services[0].json(), udp]);
    world.apply(&snapshot);
    let mut open = world.client_pod().enter(|| {
        let connect = |target: Target| target.connect().unwrap();
        both(services[0].cluster_ip()).map(connect)
    });
    let count = by_length(SHORT, LONG);
    // A client's own TIME-WAIT must not be what runs out.
    for client in [world.client_pod(), world.sandbox.outside()] {
        client.set("net/ipv4/tcp_tw_reuse", "1").unwrap();
    }
    let unattended = world.killed();
    let clients = [
        unattended.sandbox.pod("pod-c").namespace(),
        unattended.sandbox.outside(),
    ];
    let outside = clients[1].name();
    thread::scope(|scope| {
        let mut clients_of = Vec::new();
        for service in &services {
            let targets = [service.cluster_ip(), service.node_port()];
            for (from, target) in clients.into_iter().zip(targets) {
                for target in both(target) {
                    let all = scope.spawn(move || from.enter(|| many(target, count)));
                    clients_of.push((from.name() == outside, all));
                }
            }
        }
        for (is_outside, all) in clients_of {
            let ports = all.join().unwrap();
            if is_outside {
                assert_used_again(&ports);
            }
        }
    });
    let mut world = unattended.start(&flags());
    for connection in &mut open {
        connection.echo(REQUEST).unwrap();
    }
    world.apply(&snapshot);
    // What they left has ended, too.
    passing::let_pass(|map| passing::of_pins(&world.pins, map), 130).unwrap();
    let listed = listed(&world);
    let mut ports = open.each_ref().map(|connection| connection.client().port());
    ports.sort_unstable();
    assert_eq!(listed, ports.map(|port| (port, "ESTABLISHED".to_owned())));
}

#[test]
fn affinity_expires_without_an_agent() {
    let Some(mut world) = world_with_flags(&[]) else {
        return;
    };
    let tcp = service(&world, Transport::Tcp, &["pod-a", "pod-b"]);
    let mut json = tcp.json();
    json["session_affinity_timeout"] = AFFINITY.into();
    world.apply(&snapshot(&[json]));
    let mut backends = Vec::new();
    let unattended = world.killed();
    let ask = |target: Target| {
        let answer = unattended
            .sandbox
            .pod("pod-c")
            .namespace()
            .enter(|| target.ask(REQUEST));
        answer.unwrap().backend
    };
    for family in Family::BOTH {
        let target = family.target(tcp.cluster_ip());
        backends.clear();
        // Of two backends one is never chosen in one of 2^29 runs.
        for _ in 0..30 {
            let first = ask(target);
            for _ in 0..5 {
                passing::let_pass(|map| passing::of_pins(&unattended.pins, map), AFFINITY - 30)
                    .unwrap();
                assert_eq!(ask(target), first, "each connection renews it");
            }
            backends.push(first);
            passing::let_pass(|map| passing::of_pins(&unattended.pins, map), AFFINITY + 30)
                .unwrap();
        }
        backends.sort();
        backends.dedup();
        assert_eq!(backends.len(), 2, "a client is forgotten");
    }
}

/// Number of the pinned tables of programs of IPv6.
fn tables_of_programs(pins: &PinDir) -> usize {
    let tables = fs::read_dir(pins.path().join("maps")).unwrap();
    let names = tables.map(|table| table.unwrap().file_name().into_string().unwrap());
    names
        .filter(|name| name.starts_with(pinned::PROGRAMS))
        .count()
}

/// The kernel empties a table of programs that neither a process nor a pin holds.
#[test]
fn programs_of_ipv6_stay_wherever_an_agent_is_killed() {
    let Some(mut world) = world_with_flags(&[]) else {
        return;
    };
    let tcp = service(&world, Transport::Tcp, &["pod-a", "pod-b"]);
    let snapshot = snapshot(&[tcp.json()]);
    world.apply(&snapshot);
    let mut open = world.client_pod().enter(|| {
        let connect = |target: Target| target.connect().unwrap();
        both(tcp.cluster_ip()).map(connect)
    });
    let mut serves = |from: &shunt_tests::Namespace| {
        for target in both(tcp.cluster_ip()) {
            all_answered(from, target, 5);
        }
        for connection in &mut open {
            connection.echo(REQUEST).unwrap();
        }
    };
    assert_eq!(tables_of_programs(&world.pins), 1);
    // Other programs stand for the agent's own.
    let monitor = Monitor::first(&world, &[]);
    assert_eq!(tables_of_programs(&world.pins), 2);
    let mut unattended = world.killed();
    drop(monitor);
    serves(unattended.sandbox.pod("pod-c").namespace());
    // Twice: the hooks have programs of none of the tables that these pin.
    for tables in [3, 4] {
        let dying = dying_after("ipv6-programs");
        let died = unattended.try_start_of(dying.path(), &[]);
        assert!(died.is_err(), "it goes on");
        assert_eq!(tables_of_programs(&unattended.pins), tables);
        serves(unattended.sandbox.pod("pod-c").namespace());
    }
    let mut world: World = unattended.start(&[]);
    assert_eq!(tables_of_programs(&world.pins), 1);
    world.apply(&snapshot);
    serves(world.client_pod());
    unattended = world.stopped();
    serves(unattended.sandbox.pod("pod-c").namespace());
}
