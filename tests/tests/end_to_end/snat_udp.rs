//! UDP through SNAT with more flows than there are ports.

use std::{
    thread,
    time::{Duration, Instant},
};

use shunt_tests::{Failure, Target, Transport, by_length, raw::Pace};

use crate::{
    attack::both,
    dual_stack::{service, world_with_flags},
    world::REQUEST,
};

/// The full form has those that an agent has by itself. A port is given again after five seconds, or
/// ten: an exchange that a slow machine holds up has its port until it is given up.
const PORTS: [(&str, u32); 2] = [("20000-21200", 1201), ("1024-29999", 28_961)];

/// How long a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(4);

/// Flows a second of each family, and for how long at least.
const SHORT: (u32, Duration) = (240, Duration::from_secs(10));
const LONG: (u32, Duration) = (3000, Duration::from_mins(5));

/// A client gives up after so many losses.
const TOO_MANY: usize = 3;

/// How many clients there are: they wait for their answers.
const CLIENTS: u32 = 4;

/// How often a flow that lasts is used.
const PAUSE: Duration = Duration::from_millis(500);

/// Flows of one exchange, so many a second, for so long and until there were so many; gives how many
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
    let (ports, port_count) = by_length(PORTS[0], PORTS[1]);
    let flags = [
        "--snat-ports",
        ports,
        "--max-conntrack",
        by_length("8192", "524288"),
    ];
    let Some(mut world) = world_with_flags(&flags) else {
        return;
    };
    let udp = service(&world, Transport::Udp, &["pod-d"]);
    world.add(&udp);
    let (rate, time) = by_length(SHORT, LONG);
    // A machine that is too slow for the rate takes longer: each port is given twice.
    let least = 2 * port_count / CLIENTS;
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
}
