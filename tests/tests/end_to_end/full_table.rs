//! A flood that fills the conntrack table.

use std::{net::UdpSocket, time::Duration};

use shunt_tests::{Transport, wait_until};

use crate::{
    service::Service,
    world::{REQUEST, World},
};

/// No server answers here.
const UNSERVED: u16 = 9;

/// The log shows it when connections are counted.
const SOON: Duration = Duration::from_secs(10);

#[test]
fn a_flood_of_unanswered_flows_ends_no_connection_and_leaves_room() {
    let Some(mut world) =
        World::with_flags(&["--max-conntrack", "64", "--conntrack-scan-interval", "1s"])
    else {
        return;
    };
    let backend = world.backend("pod-a");
    let service = Service::new(Transport::Tcp).backend(backend);
    world.add(&service);
    let mut open = world
        .client_pod()
        .enter(|| service.cluster_ip().connect().unwrap());
    open.echo(REQUEST).unwrap();

    let mut unserved = backend;
    unserved.set_port(UNSERVED);
    let flood = Service::new(Transport::Udp).backend(unserved);
    world.update(&flood);
    world.client_pod().enter(|| {
        for _ in 0..1000 {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            socket.send_to(b"flood", "10.96.0.10:80").unwrap();
        }
    });
    let status = |world: &World| world.shunt(&["status", "-o", "json"]).json();
    let now = status(&world);
    assert_eq!(now["counters"]["drop_conntrack_full"], 0, "others give way");
    let early = now["conntrack_early_drop"].as_u64();
    assert!(early >= Some(700), "{early:?} of 1000");
    open.echo(REQUEST).unwrap();

    let answered = Service::new(Transport::Udp).backend(backend);
    world.update(&answered);
    let flow = world
        .client_pod()
        .enter(|| answered.cluster_ip().flow().unwrap());
    flow.ask(REQUEST).unwrap();
    open.echo(REQUEST).unwrap();
    let warnings = |world: &World| {
        let log = world.agent.log();
        log.matches("the conntrack table is crowded").count()
    };
    wait_until("a warning", SOON, || (warnings(&world) > 0).then_some(())).unwrap();
    assert_eq!(warnings(&world), 1, "once a minute at most");
}
