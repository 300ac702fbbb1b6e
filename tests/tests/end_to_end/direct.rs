//! Direct connections to a pod from ports that have connections to the same pod through a service.

use shunt_tests::{Connection, Failure, Namespace, Target, Transport, addresses, by_length};

use crate::{
    attack::{connect_when_free, try_when_free},
    control,
    dual_stack::{Family, service, world},
    service::Service,
    world::{REQUEST, SERVED, World},
};

/// Both go on, in turn.
#[track_caller]
fn talk(connections: &mut [&mut Connection]) {
    for _ in 0..3 {
        for connection in &mut *connections {
            let answer = connection.echo(REQUEST).unwrap();
            assert_eq!(answer.client.ip(), answer.peer.ip(), "{answer:?}");
        }
    }
}

/// A target through a service, and the pod itself, from this port.
fn targets(world: &World, web: &Service, family: Family, port: u16) -> [Target; 2] {
    let direct = Target::tcp(family.backend(world, "pod-a"));
    [family.target(web.cluster_ip()), direct].map(|target| target.from_port(port))
}

fn rounds() -> impl Iterator<Item = (Family, u16)> {
    let ports = by_length(10, 1000);
    let families = Family::BOTH.into_iter().enumerate();
    families.flat_map(move |(number, family)| {
        let first = 12_000 + 2000 * number as u16;
        (first..first + ports).map(move |port| (family, port))
    })
}

#[test]
fn a_direct_connection_after_one_through_a_service_works() {
    let Some(mut world) = world() else {
        return;
    };
    let web = service(&world, Transport::Tcp, &["pod-a"]);
    world.add(&web);
    world.client_pod().enter(|| {
        for (family, port) in rounds() {
            let [through, direct] = targets(&world, &web, family, port);
            let mut first = connect_when_free(through);
            talk(&mut [&mut first]);
            let mut second = connect_when_free(direct);
            talk(&mut [&mut first, &mut second]);
            // After the other one has ended.
            first.reset().unwrap();
            talk(&mut [&mut second]);
            let mut third = connect_when_free(through);
            talk(&mut [&mut second, &mut third]);
            second.part().unwrap();
            let mut fourth = connect_when_free(direct);
            talk(&mut [&mut third, &mut fourth]);
            third.reset().unwrap();
            fourth.reset().unwrap();
        }
    });
}

#[test]
fn a_connection_through_a_service_after_a_direct_one_works() {
    let Some(mut world) = world() else {
        return;
    };
    let web = service(&world, Transport::Tcp, &["pod-a"]);
    world.add(&web);
    // The backend answers its SYN as one of the connection that it has, and the client's second SYN,
    // a second later, goes on from another port: so all at once.
    let all: Vec<_> = rounds().collect();
    for some in all.chunks(by_length(20, 50)) {
        world.client_pod().enter(|| {
            std::thread::scope(|scope| {
                for &(family, port) in some {
                    let [through, direct] = targets(&world, &web, family, port);
                    scope.spawn(move || {
                        let mut first = connect_when_free(direct);
                        talk(&mut [&mut first]);
                        let mut second = connect_when_free(through);
                        talk(&mut [&mut first, &mut second]);
                        first.reset().unwrap();
                        talk(&mut [&mut second]);
                        let mut third = connect_when_free(direct);
                        talk(&mut [&mut second, &mut third]);
                        second.reset().unwrap();
                        third.reset().unwrap();
                    });
                }
            });
        });
    }
}

#[test]
fn a_direct_connection_after_its_service_is_gone_works() {
    let Some(mut world) = world() else {
        return;
    };
    let web = service(&world, Transport::Tcp, &["pod-a"]);
    let mut before = Vec::new();
    world.add(&web);
    for (family, port) in rounds() {
        let [through, direct] = targets(&world, &web, family, port);
        let mut connection = world.client_pod().enter(|| connect_when_free(through));
        talk(&mut [&mut connection]);
        before.push((connection, direct));
    }
    world.apply(&Service::delete());
    for (number, (mut connection, direct)) in before.into_iter().enumerate() {
        world.client_pod().enter(|| {
            if number % 2 == 0 {
                connection.reset().unwrap();
                talk(&mut [&mut connect_when_free(direct)]);
                return;
            }
            let mut second = connect_when_free(direct);
            talk(&mut [&mut connection, &mut second]);
            connection.part().unwrap();
            talk(&mut [&mut second]);
        });
    }
}

/// Two connections at once from one port, the second to this target: through the service and to the
/// backend itself.
fn side_by_side(first: Target, second: Target) -> Result<(), Failure> {
    let mut first = try_when_free(first)?;
    first.echo(REQUEST)?;
    let mut second = try_when_free(second)?;
    second.echo(REQUEST)?;
    first.echo(REQUEST)?;
    first.reset()?;
    second.echo(REQUEST)?;
    second.reset()
}

/// Returns the number of such pairs that fail, and of all: where the direct one is the later, and where it is
/// the first.
fn failures(client: &Namespace) -> ([usize; 2], usize) {
    let through = Service::new(Transport::Tcp).cluster_ip();
    let direct = Target::tcp((addresses::POD_A, SERVED).into());
    let orders = [([through, direct], 16_000), ([direct, through], 17_000)];
    let failed = orders.map(|(targets, first_port)| {
        client.enter(|| {
            std::thread::scope(|scope| {
                let pairs: Vec<_> = (first_port..first_port + PAIRS)
                    .map(|port| targets.map(|target| target.from_port(port)))
                    .map(|[first, second]| scope.spawn(move || side_by_side(first, second)))
                    .collect();
                let outcomes = pairs.into_iter().map(|pair| pair.join().unwrap());
                outcomes.filter(Result::is_err).count()
            })
        })
    });
    (failed, usize::from(PAIRS))
}

/// Number of pairs of each order that are tried beside a control.
const PAIRS: u16 = 20;

#[test]
fn no_more_direct_connections_fail_than_with_nftables() {
    let Some(rules) = control::ruled(&[control::web(&[addresses::POD_A])]) else {
        return;
    };
    let mut world = world().unwrap();
    let web = service(&world, Transport::Tcp, &["pod-a"]);
    world.add(&web);
    let (theirs, all) = failures(rules.pod("pod-c").namespace());
    let (ours, _) = failures(world.client_pod());
    println!("of {all} pairs of each order fail: {theirs:?} with nftables, {ours:?} here");
    assert_eq!(ours, [0, 0]);
}
