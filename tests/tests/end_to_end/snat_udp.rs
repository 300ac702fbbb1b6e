//! UDP flows of one exchange, many more than there are ports and than the table has room for: through SNAT, and to a
//! backend on this node.

use std::{
    thread,
    time::{Duration, Instant},
};

use shunt_tests::{Failure, Target, Transport, by_length, raw::Pace};

use crate::{
    attack::{both, early_drops},
    dual_stack::{service, world_with_flags},
    world::{REQUEST, World},
};

/// The full form has those that an agent has by itself. A port is given again after five seconds, or
/// ten: an exchange that a slow machine holds up has its port until it is given up.
const PORTS: [(&str, u32); 2] = [("20000-21200", 1201), ("1024-29999", 28_961)];

/// Time that a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(4);

/// Flows a second of each family, and for how long at least.
const SHORT: (u32, Duration) = (240, Duration::from_secs(10));
const LONG: (u32, Duration) = (3000, Duration::from_mins(5));

/// The same for a backend on this node: more flows than the table has slots for.
const LOCAL_SHORT: (u32, Duration) = (900, Duration::from_secs(10));
const LOCAL_LONG: (u32, Duration) = (11_000, Duration::from_mins(1));

/// Sizes of the table, in entries.
const ENTRIES: [&str; 2] = ["8192", "524288"];

/// Flows are remembered until they give way: so the table is full at last, on a slow machine too.
const REMEMBERED: [&str; 2] = ["--conntrack-udp-timeout", "1h"];

/// A client gives up after so many losses.
const TOO_MANY: usize = 3;

/// Number of clients: they wait for their answers.
const CLIENTS: u32 = 4;

/// Interval at which a flow that lasts is used.
const PAUSE: Duration = Duration::from_millis(500);

/// Flows of one exchange, so many a second, for so long and until there were so many; returns how many
/// there were, and those without an answer.
fn exchanges(target: Target, rate: u32, time: Duration, least: u32) -> (u32, Vec<Failure>) {
    let end = Instant::now() + time;
    let (mut count, mut lost) = (0, Vec::new());
    let mut pace = Pace::new(rate);
    while (Instant::now() < end || count < least) && lost.len() < TOO_MANY {
        for _ in 0..pace.wait() {
            count += 1;
            // From a port that is surely a new one.
            let flow = target.flow().unwrap();
            lost.extend(flow.ask(REQUEST).err());
        }
    }
    (count, lost)
}

#[test]
fn no_exchange_is_lost_when_all_ports_have_been_given() {
    let (_, ports) = by_length(PORTS[0], PORTS[1]);
    none_is_lost("pod-d", by_length(SHORT, LONG), 2 * ports, &[]);
}

#[test]
fn no_exchange_with_a_backend_here_is_lost_when_the_table_has_been_full() {
    let entries = by_length(ENTRIES[0], ENTRIES[1]);
    let world = none_is_lost(
        "pod-a",
        by_length(LOCAL_SHORT, LOCAL_LONG),
        entries.parse().unwrap(),
        &REMEMBERED,
    );
    if let Some(world) = world {
        let drops = early_drops(&world);
        assert!(drops > 0, "the table has been full");
    }
}

/// Flows of one exchange at this rate, for this time and until there were so many of each family; the
/// world in which that was.
fn none_is_lost(
    pod: &str,
    (rate, time): (u32, Duration),
    flows: u32,
    flags: &[&str],
) -> Option<World> {
    let (ports, _) = by_length(PORTS[0], PORTS[1]);
    let entries = by_length(ENTRIES[0], ENTRIES[1]);
    let sizes = ["--snat-ports", ports, "--max-conntrack", entries];
    let mut world = world_with_flags(&[&sizes, flags].concat())?;
    let udp = service(&world, Transport::Udp, &[pod]);
    world.add(&udp);
    // A machine that is too slow for the rate takes longer.
    let least = flows / CLIENTS;
    let outside = world.sandbox.outside();
    let targets = both(udp.node_port().within(PATIENCE));
    let lasting = targets.map(|target| outside.enter(|| target.flow().unwrap()));
    let first = lasting.each_ref().map(|flow| flow.ask(REQUEST).unwrap());
    outside.enter(|| {
        thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .flat_map(|_| targets)
                .map(|target| scope.spawn(move || exchanges(target, rate / CLIENTS, time, least)))
                .collect();
            // A flow that lasts keeps its port, with its pauses.
            let end = Instant::now() + time;
            while Instant::now() < end {
                thread::sleep(PAUSE);
                for (flow, first) in lasting.iter().zip(&first) {
                    assert_eq!(flow.ask(REQUEST).unwrap().peer, first.peer);
                }
            }
            let mut all = 0;
            for client in clients {
                let (count, lost) = client.join().unwrap();
                assert!(
                    lost.is_empty(),
                    "{} of {count} are lost: {lost:?}",
                    lost.len()
                );
                all += count;
            }
            println!("{all} exchanges");
        });
    });
    Some(world)
}
