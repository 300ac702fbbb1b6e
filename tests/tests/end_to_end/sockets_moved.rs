//! Connected UDP sockets of the node's own processes that go on without a call of their process: at another backend, or
//! at the first one.

use std::{net::SocketAddr, thread, time::Duration};

use serde_json::json;
use shunt_tests::{Transport, wait_until};

use crate::{
    dual_stack::service,
    host_world::{self, lose},
    stale_sockets::{
        Client, SETTLED, SOON, cured, destroying_world, flags, listing_world, mapped, ways,
    },
    world::{World, resync_with},
};

/// Time for which a socket may be without an answer while the machine is busy.
const AT_LAST: Duration = Duration::from_secs(10);

/// Waits until the pod answers.
#[track_caller]
fn is_soon_answered_by(client: &Client, pod: &str) {
    let mut last = None;
    let is_answered = || {
        let answer = client.ask();
        let is_there = answer.as_ref().is_ok_and(|text| text.starts_with(pod));
        last = Some(answer);
        is_there.then_some(())
    };
    let waited = wait_until("an answer", AT_LAST, is_answered);
    waited.unwrap_or_else(|error| panic!("{pod} is to answer: {last:?}: {error}"));
}

/// Adds to the node a way to ClusterIPs. A client that connects to one before there is a Service needs one.
fn lead_somewhere(world: &World) {
    let route = |range| format!("route add {range} dev pod-a\n");
    let routes = ["10.96.0.0/16", "fd00:10:96::/112"].map(route);
    world.sandbox.node().configure(&routes.concat()).unwrap();
}

/// Sockets connected to each of the addresses, each with its own address.
fn connect(world: &World, addresses: &[SocketAddr]) -> Vec<(Client, SocketAddr, SocketAddr)> {
    let connect = |frontend: &SocketAddr| {
        let client = Client::connect(world, *frontend);
        let own = client.0.local_addr().unwrap();
        (client, own, *frontend)
    };
    addresses.iter().map(connect).collect()
}

/// The sockets are answered by the pod, in the name of the frontend, and have the local addresses that they had.
#[track_caller]
fn all_go_on(clients: &[(Client, SocketAddr, SocketAddr)], pod: &str) {
    for (client, own, frontend) in clients {
        is_soon_answered_by(client, pod);
        assert_eq!(client.0.local_addr().unwrap(), *own);
        assert_eq!(client.0.peer_addr().unwrap(), *frontend);
    }
}

#[test]
fn a_connected_udp_socket_goes_on_at_another_backend() {
    let Some(mut world) = listing_world(&[]) else {
        return;
    };
    let before = service(&world, Transport::Udp, &["pod-a"]);
    world.update(&before);
    let ways = ways(&world, &before, "pod-a");
    let clients = connect(&world, &ways.map(|(frontend, _)| frontend));
    let direct = ways.map(|(_, backend)| Client::connect(&world, backend));
    // Its process connected it to the backend itself later.
    let reconnected = ways.map(|(frontend, backend)| {
        let client = Client::connect(&world, frontend);
        client.0.connect(backend).unwrap();
        client
    });
    let spared = || direct.iter().chain(&reconnected);
    all_go_on(&clients, "pod-a");
    spared().for_each(|client| client.is_answered_by("pod-a"));

    world.update(&service(&world, Transport::Udp, &["pod-b"]));
    all_go_on(&clients, "pod-b");
    thread::sleep(SETTLED);
    spared().for_each(|client| client.is_answered_by("pod-a"));
    assert_eq!(cured(&world), [3, 0, 0]);
}

#[test]
fn an_agent_moves_at_its_start_what_became_stale_without_one() {
    let Some(mut world) = listing_world(&[]) else {
        return;
    };
    let before = service(&world, Transport::Udp, &["pod-a"]);
    world.update(&before);
    let frontends = ways(&world, &before, "pod-a").map(|(frontend, _)| frontend);
    let clients = connect(&world, &frontends);
    let flags = flags();
    let mut world = world.killed().start(&flags.each_ref().map(String::as_str));
    let after = service(&world, Transport::Udp, &["pod-b"]);
    world.apply(&resync_with(&[after.json()]));
    all_go_on(&clients, "pod-b");
    assert_eq!(cured(&world), [3, 0, 0]);
}

#[test]
fn a_socket_that_is_older_than_its_service_reaches_a_backend() {
    let Some(mut world) = listing_world(&[]) else {
        return;
    };
    lead_somewhere(&world);
    let service = service(&world, Transport::Udp, &["pod-a"]);
    let frontends = ways(&world, &service, "pod-a").map(|(frontend, _)| frontend);
    let node_port = service.node_port().address();
    let frontends = [&frontends[..], &[node_port, mapped(node_port)]].concat();
    let clients = connect(&world, &frontends);
    world.update(&service);
    all_go_on(&clients, "pod-a");
    assert_eq!(cured(&world), [5, 0, 0]);

    // The Service is deleted, and made anew.
    let id = &service.json()["id"];
    world.apply(&json!({ "event": "DeleteService", "id": id }).to_string());
    let younger = connect(&world, &frontends);
    thread::sleep(SETTLED);
    world.update(&service);
    all_go_on(&clients, "pod-a");
    all_go_on(&younger, "pod-a");
}

#[test]
fn a_socket_that_is_older_than_its_service_is_destroyed_by_an_agent_that_may_not_touch_it() {
    let Some((mut world, _agent)) = destroying_world(&[]) else {
        return;
    };
    lead_somewhere(&world);
    let service = service(&world, Transport::Udp, &["pod-a"]);
    let ways = ways(&world, &service, "pod-a");
    let clients = ways.map(|(frontend, _)| Client::connect(&world, frontend));
    let direct = ways.map(|(_, backend)| Client::connect(&world, backend));
    // Without a backend, its process would be refused the connection that it makes anew.
    let mut empty = service.json();
    empty["backends"] = json!({});
    world.apply(&json!({ "event": "UpdateService", "service": empty }).to_string());
    thread::sleep(SETTLED);
    assert_eq!(cured(&world), [0, 0, 0]);
    world.update(&service);
    for (client, (frontend, _)) in clients.iter().zip(ways) {
        client.is_aborted();
        client.0.connect(frontend).unwrap();
        client.is_answered_by("pod-a");
    }
    thread::sleep(SETTLED);
    for client in clients.iter().chain(&direct) {
        client.is_answered_by("pod-a");
    }
    assert_eq!(cured(&world), [0, 3, 0]);
    let log = world.agent.log();
    assert!(log.contains("CAP_SYS_PTRACE"), "{log}");
}

#[test]
fn a_socket_that_the_kernel_does_not_connect_is_destroyed() {
    let Some(mut world) = listing_world(&[]) else {
        return;
    };
    let lost = lose(world.sandbox.node());
    let before = service(&world, Transport::Udp, &["pod-a"]);
    world.update(&before);
    let frontends = ways(&world, &before, "pod-a").map(|(frontend, _)| frontend);
    let clients = frontends.map(|frontend| Client::connect(&world, frontend));
    let mut after = before.json();
    after["backends"] = host_world::service("", "10.96.0.10", &lost)["backends"]["udp"].take();
    let backends = after["backends"].take();
    after["backends"] = json!({ "main": backends });
    world.apply(&json!({ "event": "UpdateService", "service": after }).to_string());
    clients.iter().for_each(Client::is_aborted);
    thread::sleep(SETTLED);
    assert_eq!(cured(&world), [0, 3, 0]);
}

#[test]
fn sockets_of_many_processes_go_on() {
    let Some(mut world) = listing_world(&[]) else {
        return;
    };
    let before = service(&world, Transport::Udp, &["pod-a"]);
    world.update(&before);
    let frontend = before.cluster_ip().address();
    let clients: Vec<Client> = (0..200)
        .map(|_| Client::connect(&world, frontend))
        .collect();
    world.update(&service(&world, Transport::Udp, &["pod-b"]));
    for client in &clients {
        is_soon_answered_by(client, "pod-b");
    }
    wait_until("the number of moved sockets", SOON, || {
        (cured(&world) == [200, 0, 0]).then_some(())
    })
    .unwrap();
}
