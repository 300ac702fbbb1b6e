//! Floods from made-up addresses, beside clients who want to be served.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use shunt_tests::{
    Connection, FarWorld, Namespace, Random, Target, Transport, addresses, by_length, nobody,
    raw::{Pace, Packet, What, Wire},
};

use crate::{
    attack::{both, early_drops, snapshot},
    dual_stack::{Family, service, world_with_flags},
    world::{REQUEST, World},
};

/// Packets a second, and for how long of each kind of flood.
const SHORT: (u32, Duration) = (10_000, Duration::from_secs(2));
const LONG: (u32, Duration) = (100_000, Duration::from_mins(1));

/// Small enough that the short form fills it, and large enough that one who is 200 ms away
/// is not displaced by what comes in a second: room for 16,384 connections of each family.
const CONNTRACK: [&str; 2] = ["32768", "524288"];

/// Few enough that a flood of a second uses them up, and enough that one who is 200 ms away has
/// answered before all of them have been given anew, also on a machine with little to spare.
const PORTS: [(&str, u64); 2] = [("20000-28191", 8191), ("1024-29999", 28_961)];

/// The packets of a flood.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Syn,
    SynAndAck,
    Ack,
}

/// The number that the sandbox's namespaces have in their names.
fn outside_number(namespace: &Namespace) -> u32 {
    let number = namespace.name().split('-').nth(2);
    number.unwrap().parse().unwrap()
}

/// A flood, whose packets are counted.
#[derive(Debug, Default)]
struct Flood {
    sent: AtomicU64,
    stop: AtomicBool,
}

/// Limit of the time until a flood is one, where others need the processors, too.
const AT_MOST: Duration = Duration::from_mins(2);

/// Sends a flood at a target until it has to stop.
fn send(kind: Kind, family: Family, target: Target, rate: u32, flood: &Flood) {
    let to = family.target(target).address();
    let is_v6 = to.is_ipv6();
    let mut wire = Wire::open(to.ip()).unwrap();
    let mut random = Random::new(7, kind as u64);
    let mut pace = Pace::new(rate);
    while !flood.stop.load(Ordering::Relaxed) {
        for _ in 0..pace.wait() {
            let syn = Packet {
                from: (nobody(is_v6, &mut random), random.port()).into(),
                to,
                sequence: random.word(),
                what: What::Syn,
            };
            let ack = Packet {
                sequence: syn.sequence.wrapping_add(1),
                what: What::Ack {
                    number: random.word(),
                },
                ..syn
            };
            let packets = match kind {
                Kind::Syn => [Some(syn), None],
                Kind::SynAndAck => [Some(syn), Some(ack)],
                Kind::Ack => [Some(ack), None],
            };
            for packet in packets.iter().flatten() {
                let sent = wire.send(packet).is_ok().into();
                flood.sent.fetch_add(sent, Ordering::Relaxed);
            }
        }
    }
}

/// Results of honest clients.
#[derive(Debug, Default)]
struct Honest {
    served: AtomicU64,
    failed: AtomicU64,
}

impl Honest {
    fn connect(&self, target: Target, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            match target.ask(REQUEST) {
                Ok(_) => self.served.fetch_add(1, Ordering::Relaxed),
                Err(failure) => {
                    eprintln!("{target:?}: {failure}");
                    self.failed.fetch_add(1, Ordering::Relaxed)
                }
            };
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// 99.9 % are served; of fewer than a thousand, all but one.
    fn check(&self, what: &str) {
        let (served, failed) = (
            self.served.load(Ordering::Relaxed),
            self.failed.load(Ordering::Relaxed),
        );
        println!("{what}: {served} served, {failed} not");
        assert!(
            served > 0 && failed * 999 <= served.max(999),
            "{what}: {self:?}"
        );
    }
}

fn open(from: &Namespace, targets: &[Target], to: &mut Vec<Connection>) {
    for target in targets {
        let mut connection = from.enter(|| target.connect().unwrap());
        connection.echo(REQUEST).unwrap();
        to.push(connection);
    }
}

/// Floods at the service on this pod, while others use it and another one.
fn others_are_served(pod: &str) -> Option<World> {
    let flags = [
        "--max-conntrack",
        by_length(CONNTRACK[0], CONNTRACK[1]),
        "--snat-ports",
        by_length(PORTS[0].0, PORTS[1].0),
    ];
    let mut world = world_with_flags(&flags)?;
    let number = outside_number(world.sandbox.outside());
    let far_world = FarWorld::new(&world.sandbox, number).unwrap();
    let far = far_world.client();
    let flooded = service(&world, Transport::Tcp, &[pod]);
    let other = service(&world, Transport::Tcp, &["pod-b"]);
    let mut json = other.json();
    json["id"]["name"] = "other".into();
    json["cluster_ips"] = serde_json::json!(["10.96.0.11", "fd00:10:96::11"]);
    json["external_ips"] = serde_json::json!([]);
    json["ports"]["main"]["node_port"] = 30_081.into();
    world.apply(&snapshot(&[flooded.json(), json]));
    let other = Target::tcp(([10, 96, 0, 11], 80).into());
    let (pod, outside) = (world.client_pod(), world.sandbox.outside());
    let mut all = Vec::new();
    open(pod, &both(flooded.cluster_ip()), &mut all);
    open(pod, &both(other), &mut all);
    open(outside, &both(flooded.node_port()), &mut all);
    let (rate, time) = by_length(SHORT, LONG);
    let honest: [Honest; 4] = Default::default();
    for kind in [Kind::Syn, Kind::SynAndAck, Kind::Ack] {
        for family in Family::BOTH {
            let flood = Flood::default();
            let sent = || flood.sent.load(Ordering::Relaxed);
            thread::scope(|scope| {
                let (flood, [same, others, outer, slow]) = (&flood, &honest);
                let target = |target: Target| family.target(target);
                let flooded_target = flooded_target(family);
                scope.spawn(move || {
                    outside.enter(|| send(kind, family, flooded_target, rate, flood));
                });
                for (from, target, honest) in [
                    (pod, target(flooded.cluster_ip()), same),
                    (pod, target(other), others),
                    (outside, target(flooded.node_port()), outer),
                    (far, target(flooded.node_port()), slow),
                ] {
                    scope.spawn(move || from.enter(|| honest.connect(target, &flood.stop)));
                }
                let begun = Instant::now();
                let wanted = u64::from(rate) * time.as_secs() / 2;
                while begun.elapsed() < time || (sent() < wanted && begun.elapsed() < AT_MOST) {
                    for connection in &mut all {
                        connection.echo(REQUEST).unwrap();
                    }
                    thread::sleep(Duration::from_millis(100));
                }
                flood.stop.store(true, Ordering::Relaxed);
            });
            println!("{kind:?} {family:?}: {} packets", sent());
            assert!(sent() >= u64::from(rate), "it is a flood");
            for connection in &mut all {
                connection.echo(REQUEST).unwrap();
            }
        }
    }
    let names = [
        "same service",
        "another one",
        "from outside",
        "from far away",
    ];
    for (name, honest) in names.into_iter().zip(&honest) {
        honest.check(name);
    }
    Some(world)
}

/// The NodePort of the service that is flooded.
fn flooded_target(family: Family) -> Target {
    Target::tcp((family.of(addresses::NODE), 30_080).into())
}

#[test]
fn a_flood_at_a_backend_here_stops_nobody() {
    if let Some(world) = others_are_served("pod-a") {
        let drops = early_drops(&world);
        println!("{drops} connections gave way");
        assert!(drops > 0, "the table has been full");
    }
}

#[test]
fn a_flood_at_a_backend_elsewhere_stops_nobody() {
    let Some(world) = others_are_served("pod-d") else {
        return;
    };
    // What a flood opens is remembered for longer than it lasts: who gets a port when all have been given
    // has taken it from another.
    let counters = &world.shunt(&["status", "-o", "json"]).json()["counters"];
    let [opened, refused] =
        ["connection", "drop_no_port"].map(|counter| counters[counter].as_u64().unwrap_or(0));
    let (_, ports) = by_length(PORTS[0], PORTS[1]);
    println!("{opened} connections, {refused} got no port of {ports} in either family");
    assert!(opened > 4 * ports && refused == 0, "ports have been taken");
}
