//! Many sockets of the node's own processes whose backend goes.

use std::{
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    thread,
    time::Duration,
};

use serde_json::json;
use shunt_tests::{Transport, by_length, make_room_for_files, wait_until};

use crate::{
    dual_stack::service,
    host_world,
    stale_sockets::{Client, SETTLED, SOON, destroyed, destroying_world, flags},
    world::resync_with,
};

/// Time that a sweep may take that a busy machine holds up.
const AT_LAST: Duration = Duration::from_secs(10);

/// Number of sockets that a killed agent was about to destroy, and of kills.
const SWEPT: usize = 4000;
const KILLS: (usize, usize) = (2, 20);

#[test]
fn a_sweep_that_a_kill_has_cut_off_is_ended_by_the_next_agent() {
    let Some((mut world, agent)) = destroying_world(&[]) else {
        return;
    };
    let pods = ["pod-a", "pod-b"];
    let services = pods.map(|pod| service(&world, Transport::Udp, &[pod]));
    let frontend = services[0].cluster_ip().address();
    let flags = flags();
    let flags = flags.each_ref().map(String::as_str);
    world.update(&services[0]);
    let (short, long) = KILLS;
    let mut cut_off = 0;
    for round in 0..by_length(short, long) {
        let clients: Vec<Client> = (0..SWEPT)
            .map(|_| Client::connect(&world, frontend))
            .collect();
        let left = || {
            let clients = clients.iter();
            clients
                .filter(|client| client.0.peer_addr().is_ok())
                .count()
        };
        let after = &services[(round + 1) % 2];
        world.update(after);
        wait_until("the first one is destroyed", SOON, || {
            (left() < SWEPT).then_some(())
        })
        .unwrap();
        let unattended = world.killed();
        cut_off += left();
        // What is new goes elsewhere all the same.
        Client::connect_in(unattended.sandbox.node(), frontend)
            .is_answered_by(pods[(round + 1) % 2]);
        world = unattended.start_of(agent.path(), &flags);
        world.apply(&resync_with(&[after.json()]));
        wait_until("all are destroyed", AT_LAST, || (left() == 0).then_some(())).unwrap();
    }
    assert!(
        cut_off > 0,
        "every sweep was over before its agent was killed"
    );
}

/// A tenth of so many sockets has a backend that leaves.
const MANY: (usize, usize) = (1000, 100_000);

/// Each of the node's addresses has ports for so many.
const AT_ONE_ADDRESS: usize = 20_000;

#[test]
fn of_many_sockets_those_at_a_removed_backend_are_destroyed_soon() {
    let Some((mut world, _agent)) = destroying_world(&[]) else {
        return;
    };
    let (short, long) = MANY;
    let many = by_length(short, long);
    make_room_for_files(many).unwrap();
    let before = service(&world, Transport::Udp, &["pod-a"]);
    let staying = host_world::service("staying", "10.96.0.15", &[world.backend("pod-b")]);
    world.update(&before);
    world.apply(&json!({ "event": "AddService", "service": staying }).to_string());
    let (leaves, stays) = (
        before.cluster_ip().address(),
        SocketAddr::from(([10, 96, 0, 15], 80)),
    );
    let node = world.sandbox.node();
    let mut clients = Vec::with_capacity(many);
    for number in 0..many {
        let address = Ipv4Addr::new(10, 250, 0, (number / AT_ONE_ADDRESS) as u8);
        if number % AT_ONE_ADDRESS == 0 {
            let add = format!("address add {address}/32 dev lo\n");
            node.configure(&add).unwrap();
        }
        let frontend = if number % 10 == 0 { leaves } else { stays };
        clients.push((address, frontend));
    }
    let connect = |(address, frontend): &(Ipv4Addr, SocketAddr)| {
        let socket = UdpSocket::bind((*address, 0)).unwrap();
        socket.connect(frontend).unwrap();
        (socket, *frontend)
    };
    let clients: Vec<_> = node.enter(|| clients.iter().map(connect).collect());
    world.update(&service(&world, Transport::Udp, &["pod-b"]));
    let stale = || clients.iter().filter(|(_, frontend)| *frontend == leaves);
    wait_until("the stale ones are destroyed", SOON, || {
        stale()
            .all(|(socket, _)| socket.peer_addr().is_err())
            .then_some(())
    })
    .unwrap();
    thread::sleep(SETTLED);
    for (socket, frontend) in &clients {
        let peer = socket.peer_addr().ok();
        assert_eq!(peer, (*frontend == stays).then_some(stays));
    }
    assert_eq!(destroyed(&world), (many.div_ceil(10) as u64, 0));
}
