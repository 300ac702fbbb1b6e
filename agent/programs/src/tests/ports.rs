//! Source ports of connections, after none was left.

use shunt_common::{
    PortRange, TCP, Tuple,
    connections::{Seeds, Signal, Timeouts, homes_of, slots_for},
};

use crate::{
    nat::{
        conntrack::{find, follow, forget},
        open::{Destination, Source, open},
        wanted::Wanted,
    },
    tests::{
        both_families,
        kernel::Kernel,
        sample::{Sample, frame, packet, tuple},
    },
};

/// Number of ports, a prime, and of those that become free.
const PORTS: u16 = 499;
const FREED: u32 = 25;

/// The kernel's ticks in a tick of the connections.
const TICK: u32 = 64;

/// The node, the backend, and the first client.
const NODE: u32 = 2;
const BACKEND: u32 = 3;
const CLIENT: u32 = 0x1_0000;

fn kernel<F: Sample>() -> Kernel {
    let mut kernel = Kernel::new();
    let slots = slots_for(4 * u32::from(PORTS));
    kernel.resize(&F::name("CONNTRACK"), slots);
    kernel.set(&F::name("CONNTRACK_HOMES"), &homes_of(slots));
    let seeds = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map(|number: u32| number.wrapping_mul(0x9e37_79b9));
    kernel.set("CONNTRACK_SEEDS", &Seeds(seeds));
    kernel.set("CONNTRACK_TIMEOUTS", &Timeouts::linux(2));
    let ports = PortRange {
        first: 1024,
        count: PORTS,
    };
    kernel.set("SNAT_PORTS", &ports);
    kernel
}

/// The first packet of a client's connection.
fn came<F: Sample>(client: u32) -> Tuple<F> {
    tuple((client, 40_000), (1, 80))
}

/// Opens the connection of a client, which both sides acknowledge. Returns whether there is a source port.
fn opens<F: Sample>(kernel: &Kernel, client: u32) -> bool {
    let came = came::<F>(client);
    let opened = kernel.at(1, &frame(&came, TCP), |_| {
        let mut syn = packet(&came, TCP);
        syn.signal = Signal::open(1000);
        let destination = Destination {
            address: &F::host(BACKEND),
            port: 8080_u16.to_be(),
            backend: 0,
            generation: 0,
            service: 0,
        };
        let source = Source {
            address: &F::host(NODE),
            keeps_port: false,
            avoided: Source::<F>::NO_PORT,
        };
        let mut translated = came;
        if open(&syn, &destination, &source, &mut translated).is_err() {
            return false;
        }
        for (tuple, signal, wanted) in [
            (translated.reversed(), Signal::answer(77), Wanted::Reply),
            (came, Signal::acknowledge(77), Wanted::Forward),
        ] {
            let mut next = packet(&tuple, TCP);
            next.signal = signal;
            let half = find(&next, wanted).expect("the connection is known");
            assert!(follow(&next, half, &mut translated));
        }
        true
    });
    opened.0
}

/// Has the client's connection be forgotten.
fn forgets<F: Sample>(kernel: &Kernel, client: u32) {
    let came = came::<F>(client);
    kernel.at(1, &frame(&came, TCP), |_| {
        let half = find(&packet(&came, TCP), Wanted::Forward).expect("the connection is known");
        forget::<F>(&half);
    });
}

both_families!(a_search_in_vain_limits_those_of_the_same_tick_alone:
    a_search_in_vain_limits_those_of_the_same_tick_alone_v4
    a_search_in_vain_limits_those_of_the_same_tick_alone_v6);
fn a_search_in_vain_limits_those_of_the_same_tick_alone<F: Sample>() {
    let kernel = kernel::<F>();
    let all = CLIENT..CLIENT + u32::from(PORTS);
    for client in all.clone() {
        assert!(opens::<F>(&kernel, client), "a port is free");
    }
    assert!(!opens::<F>(&kernel, all.end), "all ports are in use");
    for client in all.clone().take(FREED as usize) {
        forgets::<F>(&kernel, client);
    }
    let late = all.end + 1..all.end + 1 + FREED;
    // The search is short in this tick, so that a flood costs little.
    let found = late.clone().filter(|client| {
        let opens = opens::<F>(&kernel, *client);
        if opens {
            forgets::<F>(&kernel, *client);
        }
        opens
    });
    let found = found.count();
    assert!(found < FREED as usize, "{found} in the same tick");
    kernel.pass(TICK);
    for client in late {
        assert!(opens::<F>(&kernel, client), "a port is free");
    }
    assert!(!opens::<F>(&kernel, all.end), "all ports are in use");
}
