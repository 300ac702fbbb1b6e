//! A flood that fills the conntrack table.

use std::{net::UdpSocket, time::Duration};

use shunt_tests::{Transport, wait_until};

use crate::{
    service::Service,
    world::{REQUEST, World},
};

/// Nobody answers here.
const UNSERVED: u16 = 9;

/// The agent makes room of flows that nobody has answered for 5 s, at its next tick.
const ROOM: Duration = Duration::from_secs(20);

#[test]
fn a_flood_of_unanswered_flows_ends_no_connection_and_makes_room() {
    let Some(mut world) = World::with_conntrack("64") else {
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
        for _ in 0..40 {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            socket.send_to(b"flood", "10.96.0.10:80").unwrap();
        }
    });
    let status = |world: &World| world.shunt(&["status", "-o", "json"]).json();
    let dropped = status(&world)["counters"]["drop_conntrack_full"].as_u64();
    assert!(dropped >= Some(9), "{dropped:?} of 40, with room for 31");
    open.echo(REQUEST).unwrap();

    wait_until("there is room again", ROOM, || {
        (status(&world)["conntrack_early_drop"].as_u64() > Some(0)).then_some(())
    })
    .unwrap();
    let answered = Service::new(Transport::Udp).backend(backend);
    world.update(&answered);
    let flow = world
        .client_pod()
        .enter(|| answered.cluster_ip().flow().unwrap());
    flow.ask(REQUEST).unwrap();
    open.echo(REQUEST).unwrap();
    let log = world.agent.log();
    let warnings = log.matches("the conntrack table is crowded").count();
    assert_eq!(warnings, 1, "once a minute at most:\n{log}");
}
