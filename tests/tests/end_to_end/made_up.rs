//! Segments that a third party makes up in the name of a connection's client, beside nftables' DNAT: FIN and SYN, RST
//! and SYN, and a SYN alone, while the server sends.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use shunt_tests::{
    Connection, Failure, Namespace, Random, Sandbox, Target, Transport, addresses,
    raw::{Packet, What, Wire},
};

use crate::{
    control,
    dual_stack::{Family, service, world},
    service::Service,
    world::REQUEST,
};

/// Packets of each attack, and the number of its repetitions.
const ATTACKS: [&[What]; 3] = [
    &[What::Fin { number: 0 }, What::Syn],
    &[What::Reset, What::Syn],
    &[What::Syn],
];
const TIMES: usize = 3;

/// Size of a server's transfer to a client that reads on, and a size beyond what the sockets of both sides
/// hold, in bytes.
const SENT: u64 = 8 << 20;
const HELD: u64 = 16 << 20;

/// A third party that knows the ends of connections, and none of their sequence numbers.
struct Third<'a> {
    from: &'a Namespace,
    random: Random,
}

impl Third<'_> {
    /// Sends what one attack consists of.
    fn attack(&mut self, attack: &[What], connection: &Ends) {
        let Self { from, random } = self;
        from.enter(|| {
            let mut wire = Wire::open(connection.frontend.ip()).unwrap();
            for what in attack {
                let packet = Packet {
                    from: connection.client,
                    to: connection.frontend,
                    sequence: random.word(),
                    what: *what,
                };
                wire.send(&packet).unwrap();
            }
        });
    }
}

/// The ends of a connection as its client sees them.
struct Ends {
    client: std::net::SocketAddr,
    frontend: std::net::SocketAddr,
}

/// Has a client exchange with the server, be sent what the server has while the attack lasts, exchange again, end its
/// direction, be attacked once more, and receive the rest.
fn survives(
    from: &Namespace,
    target: Target,
    attack: &[What],
    third: &mut Third<'_>,
) -> Result<(), Failure> {
    let mut connection: Connection = from.enter(|| target.connect())?;
    let first = connection.echo(REQUEST)?;
    let ends = Ends {
        client: connection.client(),
        frontend: target.address(),
    };
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let fetched = connection.fetch(SENT);
            is_over.store(true, Ordering::Relaxed);
            fetched
        });
        while !is_over.load(Ordering::Relaxed) {
            third.attack(attack, &ends);
        }
        sending.join().unwrap()
    })?;
    for _ in 0..TIMES {
        third.attack(attack, &ends);
        let answer = connection.echo(REQUEST)?;
        assert_eq!((answer.backend, answer.peer), (first.backend, first.peer));
    }
    let closing = connection.half_close(HELD)?;
    for _ in 0..TIMES {
        third.attack(attack, &ends);
        third.attack(&[What::Syn], &ends);
    }
    closing.receive().map(drop)
}

/// Tries each attack on connections of clients here and outside. Returns what became of them.
fn survivors(sandbox: &Sandbox, families: &[Family]) -> Vec<(String, Result<(), Failure>)> {
    let web = Service::new(Transport::Tcp);
    let mut third = Third {
        from: sandbox.outside(),
        random: Random::new(37, 1),
    };
    let mut all = Vec::new();
    for family in families {
        for attack in ATTACKS {
            for _ in 0..2 {
                let target = family.target(web.node_port());
                let outcome = survives(sandbox.outside(), target, attack, &mut third);
                all.push((format!("{target:?}, {attack:?}"), outcome));
            }
        }
        // A pod whose neighbour makes them up: the same device, so that no other is needed.
        let pod = sandbox.pod("pod-c").namespace();
        let mut neighbour = Third {
            from: pod,
            random: Random::new(37, 2),
        };
        for attack in ATTACKS {
            let target = family.target(web.cluster_ip());
            let outcome = survives(pod, target, attack, &mut neighbour);
            all.push((format!("{target:?}, {attack:?}"), outcome));
        }
    }
    all
}

#[test]
fn made_up_segments_end_no_connection_as_with_nftables() {
    let pods = [addresses::POD_A, addresses::POD_B, addresses::POD_D];
    let Some(rules) = control::ruled(&[control::web(&pods)]) else {
        return;
    };
    let mut world = world().unwrap();
    let tcp = service(&world, Transport::Tcp, &["pod-a", "pod-b", "pod-d"]);
    world.add(&tcp);
    // The rules are for IPv4 alone.
    let theirs = survivors(&rules, &[Family::V4]);
    let lost = theirs.iter().filter(|(_, outcome)| outcome.is_err());
    println!("nftables: of {} are lost: {}", theirs.len(), lost.count());
    let ours = survivors(&world.sandbox, &Family::BOTH);
    let lost: Vec<_> = ours
        .iter()
        .filter(|(_, outcome)| outcome.is_err())
        .collect();
    assert!(lost.is_empty(), "of {}: {lost:#?}", ours.len());
}
