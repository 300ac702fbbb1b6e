//! Direct server return over three nodes: a connection survives its first node.

use std::{
    net::IpAddr,
    ops::Range,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use serde_json::json;
use shunt_tests::{Answer, Connection, Failure, Transport, by_length, patience};

use crate::{
    dsr_world::{A, ALL, B, C, CLIENT, Place, World},
    dual_stack::Family,
    upgrade::other_version,
    world::{REQUEST, binary},
};

/// Sizes of a transfer, in bytes, and no multiple of anything.
const BYTES: (u64, u64) = ((48 << 20) + 12_345, (1 << 30) + 12_345);

/// Time for which the client's packets come by one node.
const STAY: Duration = Duration::from_millis(20);

/// Least number of envelopes that each of the other nodes sends.
const MOVED: u64 = 100;

/// Limit of a transfer's duration for that.
const LIMIT: Duration = Duration::from_secs(30);

/// Time without an answer after which a client gives up.
const SILENCE: Duration = Duration::from_secs(1);

/// The ports that clients ask from: enough for both backends to get some.
const PORTS: Range<u16> = 21_000..21_012;

fn client(family: Family) -> IpAddr {
    family.of(CLIENT.parse().unwrap())
}

/// Opens a connection that the backend of this node serves.
pub(crate) fn connection_to(world: &World, family: Family, wanted: &str) -> (Connection, Answer) {
    connection_from(PORTS, world, family, wanted)
}

/// As [`connection_to`], from one of these ports.
fn connection_from(
    ports: Range<u16>,
    world: &World,
    family: Family,
    wanted: &str,
) -> (Connection, Answer) {
    world.client.enter(|| {
        for port in ports {
            let target = world.target(family).from_port(port);
            let mut connection = target.connect().unwrap();
            let answer = connection.echo(REQUEST).unwrap();
            if answer.name == wanted {
                return (connection, answer);
            }
            connection.reset().unwrap();
        }
        panic!("no port leads to {wanted}");
    })
}

#[test]
fn a_transfer_survives_its_first_node() {
    transfer("off");
}

#[test]
fn a_transfer_in_envelopes_of_the_drivers_survives_its_first_node() {
    transfer("native");
}

#[test]
fn a_transfer_in_envelopes_from_before_the_stack_survives_its_first_node() {
    transfer("generic");
}

/// Makes sure that with `--xdp` nearly all envelopes that a node has sent since `before` have left at its driver,
/// and that without it none has.
#[track_caller]
fn assert_by_driver(world: &World, node: Place, xdp: &str, before: [u64; 2]) {
    let [wrapped, taken] = [0, 1].map(|place| sent(world, node)[place] - before[place]);
    if xdp == "off" {
        assert_eq!(taken, 0);
    } else {
        assert!(taken * 10 >= wrapped * 9, "{node:?}: {taken} of {wrapped}");
    }
}

/// Returns the number of envelopes that a node has sent, and of packets that got no further than its driver.
fn sent(world: &World, node: Place) -> [u64; 2] {
    ["wrapped", "xdp"].map(|counter| world.counted(node, counter))
}

fn transfer(xdp: &str) {
    let Some(world) = World::new(Transport::Tcp, "dsr", xdp) else {
        return;
    };
    let bytes = by_length(BYTES.0, BYTES.1);
    for family in Family::BOTH {
        let (mut connection, first) = connection_to(&world, family, "node-b");
        assert_eq!(
            first.peer.ip(),
            client(family),
            "the backend sees the client"
        );
        let before = [A, C].map(|node| sent(&world, node));
        // A machine in no hurry moves all bytes before the flow has moved.
        let is_enough = AtomicBool::new(false);
        thread::scope(|scope| {
            let transfer = scope.spawn(|| {
                let mut answers = Vec::new();
                while !is_enough.load(Ordering::Relaxed) || answers.is_empty() {
                    answers.push(connection.send(bytes)?);
                    answers.push(connection.fetch(bytes)?);
                }
                Ok::<_, Failure>(answers)
            });
            let deadline = Instant::now() + patience(LIMIT);
            for node in [C, A, B].into_iter().cycle() {
                if transfer.is_finished() {
                    break;
                }
                world.go_by(node);
                thread::sleep(STAY);
                let by_all = [A, C]
                    .into_iter()
                    .zip(before)
                    .all(|(node, before)| sent(&world, node)[0] > before[0] + MOVED);
                is_enough.store(by_all || Instant::now() > deadline, Ordering::Relaxed);
            }
            for answer in transfer.join().unwrap().unwrap() {
                assert_eq!((answer.backend, answer.peer), (first.backend, first.peer));
            }
        });
        for (node, before) in [A, C].into_iter().zip(before) {
            let [wrapped, _] = sent(&world, node);
            assert!(wrapped > before[0] + MOVED, "{family:?}: {before:?}");
            assert_by_driver(&world, node, xdp, before);
        }
        world.go_by(A);
        connection.reset().unwrap();
    }
    // The first nodes have nothing of it, and no other host has answered.
    assert_eq!(world.counted(A, "connection"), 0);
    assert!(world.counted(B, "unwrapped") > 0);
}

#[test]
fn a_udp_flow_survives_its_first_node() {
    datagrams("off");
}

#[test]
fn a_udp_flow_in_envelopes_of_the_drivers_survives_its_first_node() {
    for mode in ["native", "generic"] {
        datagrams(mode);
    }
}

fn datagrams(xdp: &str) {
    datagrams_with(xdp, |_| &[]);
}

fn datagrams_with(xdp: &str, flags: impl Fn(Place) -> &'static [&'static str]) {
    let Some(world) = World::with(Transport::Udp, "dsr", xdp, flags) else {
        return;
    };
    for family in Family::BOTH {
        let before = world.counted(A, "xdp");
        let mut backends = Vec::new();
        for port in PORTS {
            let flow = world
                .client
                .enter(|| world.target(family).from_port(port).flow().unwrap());
            let mut seen = None;
            for node in [A, C, B, A] {
                world.go_by(node);
                // Also one that its sender, who knows how much fits by then, has to fragment.
                for length in [REQUEST, 1_472, 4_000] {
                    let answer = ask(&flow, length);
                    assert_eq!(answer.peer.ip(), client(family));
                    let end = (answer.backend, answer.peer);
                    assert_eq!(*seen.get_or_insert(end), end, "{family:?}, {length}");
                }
            }
            backends.extend(seen.map(|(backend, _)| backend));
        }
        // Each flow came twice by this node, and at its driver whatever is in no fragments leaves.
        let taken = world.counted(A, "xdp") - before;
        assert!(xdp == "off" || taken > PORTS.len() as u64, "{xdp}: {taken}");
        backends.sort_unstable();
        backends.dedup();
        assert_eq!(backends.len(), 2, "{backends:?}");
    }
    assert_eq!(world.counted(A, "connection"), 0);
}

/// Asks, and once more if the first packet was only answered with how much fits.
fn ask(flow: &shunt_tests::Flow, length: usize) -> Answer {
    let end = Instant::now() + patience(Duration::from_secs(4));
    loop {
        match flow.ask(length) {
            Ok(answer) => return answer,
            Err(failure) => assert!(Instant::now() < end, "{length} bytes: {failure}"),
        }
    }
}

#[test]
fn a_node_port_is_answered_from_the_node_that_was_asked() {
    for transport in [Transport::Tcp, Transport::Udp] {
        let Some(world) = World::new(transport, "dsr", "off") else {
            return;
        };
        for family in Family::BOTH {
            let wrapped = world.counted(A, "wrapped");
            let mut names = Vec::new();
            world.client.enter(|| {
                for port in PORTS {
                    let target = world.node_port(family, A).from_port(port);
                    let answer = target.ask(REQUEST).unwrap();
                    assert_eq!(answer.peer.ip(), client(family));
                    names.push(answer.name);
                }
            });
            names.sort_unstable();
            names.dedup();
            assert_eq!(names, ["node-b", "node-c"], "{transport} {family:?}");
            assert!(world.counted(A, "wrapped") > wrapped);
        }
        assert_eq!(world.counted(A, "connection"), 0);
    }
}

/// Ranges of the envelopes' sources, if not the node's address.
const SOURCES: [&str; 4] = [
    "--dsr-source-range",
    "172.16.0.0/12",
    "--dsr-source-range",
    "fd00:5::/64",
];

#[test]
fn a_udp_flow_in_envelopes_from_a_range_survives_its_first_node() {
    for mode in ["off", "native"] {
        datagrams_with(mode, |_| &SOURCES);
    }
}

#[test]
fn envelopes_from_a_range_pass_untouched_where_it_is_not_known() {
    let flags = |node: Place| if node == C { &[][..] } else { &SOURCES };
    let Some(world) = World::with(Transport::Udp, "dsr", "off", flags) else {
        return;
    };
    for family in Family::BOTH {
        let before = [B, C].map(|node| world.counted(node, "unwrapped"));
        let (mut served, mut unserved) = (0, 0);
        for port in PORTS {
            let target = world.target(family).from_port(port).within(SILENCE);
            match world.client.enter(|| target.ask(REQUEST)) {
                Ok(answer) => {
                    assert_eq!(answer.name, "node-b", "{family:?}");
                    served += 1;
                }
                Err(_) => unserved += 1,
            }
            if served > 0 && unserved > 0 {
                break;
            }
        }
        assert!(served > 0 && unserved > 0, "{served} and {unserved}");
        let after = [B, C].map(|node| world.counted(node, "unwrapped"));
        assert!(after[0] >= before[0] + served, "{family:?}: {before:?}");
        assert_eq!(after[1], before[1], "{family:?}");
    }
}

#[test]
fn with_snat_a_connection_ends_with_its_first_node() {
    let Some(world) = World::new(Transport::Tcp, "snat", "off") else {
        return;
    };
    for family in Family::BOTH {
        let (mut connection, first) = connection_to(&world, family, "node-b");
        assert_eq!(first.peer.ip(), family.of(A.address()));
        world.go_by(C);
        let outcome = connection.send(1 << 20);
        assert!(matches!(outcome, Err(Failure::Reset)), "{outcome:?}");
        world.go_by(A);
    }
    assert_eq!(world.counted(A, "wrapped"), 0);
}

#[test]
fn connections_stay_with_a_backend_that_drains() {
    stay_with_draining("dsr", "off");
}

#[test]
fn connections_in_envelopes_of_the_drivers_stay_with_a_backend_that_drains() {
    stay_with_draining("dsr", "native");
}

#[test]
fn connections_by_snat_stay_with_a_backend_that_drains() {
    stay_with_draining("snat", "off");
}

fn stay_with_draining(forwarding: &str, xdp: &str) {
    let Some(mut world) = World::new(Transport::Tcp, forwarding, xdp) else {
        return;
    };
    let is_dsr = forwarding == "dsr";
    // With SNAT the first node knows it, and no other one does.
    let by = if is_dsr { &ALL[..] } else { &[A] };
    let mut ports = 23_000..;
    for (fields, drains) in [
        (json!({"state": "Terminating", "serving": true}), None),
        (json!({"state": "Terminating"}), None),
        (json!({"state": "NotReady"}), None),
        (json!({"weight": 0}), None),
        (json!({}), Some("drain")),
    ] {
        world.change_pod_at(B, forwarding, &json!({}));
        world.go_by(A);
        let mut connections: Vec<(Family, Connection)> = Vec::new();
        for family in Family::BOTH {
            for _ in 0..4 {
                let ports = ports.by_ref().take(12).collect::<Vec<u16>>();
                let (connection, _) =
                    connection_from(ports[0]..ports[11] + 1, &world, family, "node-b");
                connections.push((family, connection));
            }
        }
        world.change_pod_at(B, forwarding, &fields);
        let drain = |command: &str| {
            for (place, family) in ALL
                .into_iter()
                .flat_map(|place| Family::BOTH.map(|f| (place, f)))
            {
                let address = family.of(B.pod().ip()).to_string();
                assert_eq!(world.shunt(place, &[command, &address]).status, 0);
            }
        };
        if let Some(command) = drains {
            drain(command);
        }
        for place in by {
            world.go_by(*place);
            for (family, connection) in &mut connections {
                let answer = world.client.enter(|| connection.echo(REQUEST));
                let answer = answer.unwrap_or_else(|failure| {
                    panic!("{fields} {drains:?} {family:?} by {place:?}: {failure:?}")
                });
                assert_eq!(answer.name, "node-b", "{fields} {family:?} by {place:?}");
            }
            // Also in packets that the kernel cuts into segments later.
            let (family, connection) = &mut connections[usize::from(*place == C) * 4];
            let sent = world.client.enter(|| connection.send(4 << 20));
            assert!(sent.is_ok(), "{fields} {family:?} by {place:?}: {sent:?}");
        }
        // A client that comes now gets another one, and stays there.
        for family in Family::BOTH {
            world.client.enter(|| {
                for port in ports.by_ref().take(6).collect::<Vec<u16>>() {
                    let target = world.target(family).from_port(port);
                    let mut connection = target.connect().unwrap();
                    for _ in 0..2 {
                        assert_eq!(connection.echo(REQUEST).unwrap().name, "node-c");
                    }
                }
            });
        }
        if drains.is_some() {
            drain("undrain");
        }
    }
    assert_eq!(world.counted(C, "wrapped") > 0, is_dsr, "handed on");
}

#[test]
fn connections_of_a_backend_that_drains_stay_over_an_upgrade_and_back() {
    let Some(earlier) = other_version("SHUNT_EARLIER_BIN") else {
        return;
    };
    let Some(mut world) = World::of(&earlier, Transport::Tcp, "dsr", "off", |_| &[]) else {
        return;
    };
    let mut connections: Vec<_> = Family::BOTH
        .into_iter()
        .flat_map(|family| [24_000, 24_100].map(|first| (family, first)))
        .map(|(family, first)| connection_from(first..first + 20, &world, family, "node-b").0)
        .collect();
    let mut check = |world: &World, by: &[Place], what: &str| {
        for place in by {
            world.go_by(*place);
            for connection in &mut connections {
                let answer = world.client.enter(|| connection.echo(REQUEST));
                let answer = answer.unwrap_or_else(|failure| panic!("{what}: {failure}"));
                assert_eq!(answer.name, "node-b", "{what}, by {place:?}");
            }
        }
    };
    let replace =
        |world: &mut World, binary: &Path, check: &mut dyn FnMut(&World, &[Place], &str)| {
            for place in ALL {
                world.replace_agent(place, binary);
                check(world, &ALL, "after a start");
            }
        };
    let resync = |world: &mut World| {
        for place in ALL {
            world.resync(place, "dsr");
        }
    };
    replace(&mut world, &binary(), &mut check);
    resync(&mut world);
    check(&world, &ALL, "upgraded");
    let draining = json!({"state": "Terminating", "serving": true});
    world.change_pod_at(B, "dsr", &draining);
    check(&world, &ALL, "while the backend drains");
    replace(&mut world, &binary(), &mut check);
    // The version before ends connections of a backend that drains.
    resync(&mut world);
    replace(&mut world, &earlier, &mut check);
    resync(&mut world);
    check(&world, &ALL, "with the version before again");
}

#[test]
fn a_node_without_a_backend_sends_on_by_snat_and_never_in_an_envelope() {
    let Some(mut world) = World::new(Transport::Tcp, "dsr", "off") else {
        return;
    };
    // The other nodes still believe that the backend is there.
    world.remove_pod_at(B, "dsr");
    for family in Family::BOTH {
        let (unwrapped, wrapped) = (world.counted(B, "unwrapped"), world.counted(B, "wrapped"));
        world.client.enter(|| {
            for port in PORTS {
                let target = world.target(family).from_port(port);
                let mut connection = target.connect().unwrap();
                let answer = connection.echo(REQUEST).unwrap();
                assert_eq!(answer.name, "node-c");
                let seen = [client(family), family.of(B.address())];
                assert!(seen.contains(&answer.peer.ip()), "{answer:?}");
                connection.reset().unwrap();
            }
        });
        assert!(world.counted(B, "unwrapped") > unwrapped);
        assert_eq!(world.counted(B, "wrapped"), wrapped);
    }
}

#[test]
fn the_status_names_backends_whose_node_is_not_known_and_these_are_served_by_snat() {
    let Some(mut world) = World::new(Transport::Tcp, "dsr", "off") else {
        return;
    };
    let unlocated = |world: &World| world.status(A, &["-o", "json"]).json()["unlocated"].clone();
    assert_eq!(unlocated(&world), json!([]));
    world.tell_nodes(A, &[A, B]);
    let expected: Vec<_> = Family::BOTH
        .map(|family| family.of(C.pod().ip()))
        .map(|address| json!({ "service": "default/web", "address": address }))
        .into();
    assert_eq!(unlocated(&world), json!(expected));
    let shown = world.status(A, &[]).clean();
    assert!(shown.contains(&C.pod().ip().to_string()), "{shown}");
    for family in Family::BOTH {
        // By what the backend sees; from ports that have no connection of before.
        for (ports, node, seen) in [
            (22_000..22_020, "node-b", client(family)),
            (22_100..22_120, "node-c", family.of(A.address())),
        ] {
            let (connection, answer) = connection_from(ports, &world, family, node);
            assert_eq!(answer.peer.ip(), seen, "{node}");
            connection.reset().unwrap();
        }
    }
    world.tell_nodes(A, &ALL);
    assert_eq!(unlocated(&world), json!([]));
    let (_, answer) = connection_from(22_200..22_220, &world, Family::V4, "node-c");
    assert_eq!(answer.peer.ip(), client(Family::V4));
}
