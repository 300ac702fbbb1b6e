//! Rules of kube-proxy that are easily got wrong, from the API to the answer.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
    os::fd::OwnedFd,
    time::Duration,
};

use crc32c::crc32c;
use serde_json::{Value, json};
use shunt_tests::{Namespace, Target, addresses, wait_until};
use socket2::{Domain, Protocol, Socket, Type};

use crate::{
    health_checks::{await_answer, balanced},
    objects::{and, node, ready, service, service_cidr, slice, with},
    world::{REQUEST, SILENCE, SOON, World, is_refused, tcp},
};

const IP: &str = "10.96.0.10";

/// SCTP's number, of which this kernel may know nothing.
const SCTP: i32 = 132;

/// An endpoint with only these conditions.
fn saying(address: IpAddr, conditions: Value) -> Value {
    with(ready(address), "/conditions", conditions)
}

/// A service with a NodePort, of policy Cluster.
fn with_node_port(name: &str, ip: &str, node_port: u16) -> Value {
    let ports = json!([{ "name": "http", "port": 80, "nodePort": node_port }]);
    let web = with(service(name, ip), "/spec/ports", ports);
    with(web, "/spec/type", "NodePort")
}

#[test]
fn an_endpoint_serves_unless_it_is_said_not_to() {
    let Some(world) = World::new() else {
        return;
    };
    let (client, target) = (world.pod(), tcp(IP, 80));
    world.server.put(service("web", IP));
    let put = |conditions: Value| {
        let endpoint = saying(addresses::POD_A, conditions);
        world.server.put(slice("web", "4", &[endpoint]));
    };
    put(json!({ "ready": false, "terminating": true }));
    world.await_pods(client, target, &["pod-a"]);
    put(json!({ "ready": false, "terminating": true, "serving": false }));
    world.await_failure(client, target, is_refused);
    put(json!({}));
    world.await_pods(client, target, &["pod-a"]);
    // What serves, and neither is ready nor goes, takes nothing.
    put(json!({ "ready": false }));
    world.await_failure(client, target, is_refused);
}

#[test]
fn one_endpoint_without_a_hint_takes_the_hints_from_all() {
    let Some(world) = World::new() else {
        return;
    };
    let hinted = |address, zone: &str| {
        let hints = json!({ "forZones": [{ "name": zone }] });
        and(ready(address), "", "hints", hints)
    };
    world.server.put(service("web", IP));
    let (a, b) = (hinted(addresses::POD_A, "b"), hinted(addresses::POD_B, "b"));
    let d = hinted(addresses::POD_D, "a");
    world
        .server
        .put(slice("web", "4", &[a.clone(), b, d.clone()]));
    world.await_pods(world.pod(), tcp(IP, 80), &["pod-d"]);
    let b = ready(addresses::POD_B);
    world.server.put(slice("web", "4", &[a, b, d]));
    world.await_pods(world.pod(), tcp(IP, 80), &["pod-a", "pod-b", "pod-d"]);
}

/// Returns the pods that answer eight connections of a client.
fn answering(from: &Namespace, target: Target) -> BTreeSet<String> {
    let tally = from.enter(|| target.ask_times(8, REQUEST));
    assert!(tally.failures.is_empty(), "{target:?}: {tally:#?}");
    let names = tally.shares.values().map(|share| share.name.clone());
    names.collect()
}

#[test]
fn a_clients_affinity_is_one_for_all_addresses_of_a_service_port() {
    let Some(world) = World::new() else {
        return;
    };
    let pods = [addresses::POD_A, addresses::POD_B, addresses::POD_D];
    // That six agree by chance happens once in 729 times.
    let numbers = 0..6_u16;
    let ip = |number: u16| format!("10.96.0.{}", 20 + number);
    let node_port = |number: u16| tcp(&addresses::NODE.to_string(), 30_080 + number);
    for number in numbers.clone() {
        let name = format!("web-{number}");
        let web = with_node_port(&name, &ip(number), 30_080 + number);
        world.server.put(web);
        world.server.put(slice(&name, "4", &pods.map(ready)));
    }
    let outside = world.sandbox.outside();
    for number in numbers.clone() {
        // Without affinity all of them answer.
        world.await_pods(outside, node_port(number), &["pod-a", "pod-b", "pod-d"]);
        let name = format!("web-{number}");
        let web = with_node_port(&name, &ip(number), 30_080 + number);
        world
            .server
            .put(and(web, "/spec", "sessionAffinity", "ClientIP"));
    }
    for number in numbers {
        let cluster_ip = tcp(&ip(number), 80);
        let mut targets = [cluster_ip, node_port(number)];
        if number % 2 == 1 {
            targets.reverse();
        }
        let [first, second] = targets;
        let pods = wait_until("one pod answers", SOON, || {
            let pods = answering(outside, first);
            (pods.len() == 1).then_some(pods)
        });
        let pods = pods.unwrap_or_else(|error| panic!("{error}: {first:?}"));
        assert_eq!(answering(outside, second), pods, "{targets:?}");
    }
}

#[test]
fn a_pod_with_two_ports_is_one_endpoint_to_the_health_check() {
    let Some(world) = World::new() else {
        return;
    };
    let ports = json!([
        { "name": "http", "port": 80, "nodePort": 30_080 },
        { "name": "more", "port": 81, "nodePort": 30_081 },
    ]);
    world.server.put(with(balanced(), "/spec/ports", ports));
    let both = json!([
        { "name": "http", "port": 8080, "protocol": "TCP" },
        { "name": "more", "port": 8081, "protocol": "TCP" },
    ]);
    let [a, b] = [addresses::POD_A, addresses::POD_B].map(ready);
    let put = |name, endpoints: &[Value], ports: &Value| {
        let pods = slice("web", name, endpoints);
        world.server.put(with(pods, "/ports", ports.clone()));
    };
    let outside = world.sandbox.outside();
    put("one", std::slice::from_ref(&a), &both);
    await_answer(outside, 200, 1);
    put("one", &[a.clone(), b], &both);
    await_answer(outside, 200, 2);
    // A slice for each port.
    put("one", std::slice::from_ref(&a), &json!([both[0]]));
    put("two", &[a], &json!([both[1]]));
    await_answer(outside, 200, 1);
}

#[test]
fn a_udp_flow_leaves_the_last_endpoint_of_a_service_and_finds_the_next() {
    let Some(world) = World::new() else {
        return;
    };
    let port = |number: u16| json!([{ "name": "dns", "port": number, "protocol": "UDP" }]);
    world
        .server
        .put(with(service("dns", IP), "/spec/ports", port(53)));
    let put = |endpoints: &[Value]| {
        let pods = slice("dns", "4", endpoints);
        world.server.put(with(pods, "/ports", port(8080)));
    };
    let target = Target::udp(SocketAddr::new(IP.parse().unwrap(), 53));
    put(&[ready(addresses::POD_A)]);
    world.await_pods(world.pod(), target, &["pod-a"]);
    // One socket, that goes on sending.
    let flow = world.pod().enter(|| target.within(SILENCE).flow().unwrap());
    assert_eq!(flow.ask(REQUEST).unwrap().name, "pod-a");
    put(&[]);
    let refused = wait_until("the flow is refused", SOON, || {
        flow.ask(REQUEST)
            .is_err_and(|error| is_refused(&error))
            .then_some(())
    });
    refused.unwrap();
    put(&[ready(addresses::POD_D)]);
    wait_until("the flow has another endpoint", SOON, || {
        let answer = flow.ask(REQUEST).ok()?;
        (answer.name == "pod-d").then_some(())
    })
    .unwrap();
}

/// An SCTP packet that asks for an association, from port 4000.
fn sctp_init(to: u16) -> Vec<u8> {
    let mut packet = Vec::new();
    packet.extend(4000_u16.to_be_bytes());
    packet.extend(to.to_be_bytes());
    // Verification tag and checksum.
    packet.extend([0; 8]);
    // INIT: its length, tag, window, streams out and in, first sequence number.
    packet.extend([1, 0, 0, 20, 0, 0, 0, 7, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 9]);
    let checksum = crc32c(&packet);
    packet[8..12].copy_from_slice(&checksum.to_le_bytes());
    packet
}

/// Returns whether what was received, from its IP header on, is a valid SCTP packet for this port.
fn is_for(received: &[u8], port: u16) -> bool {
    let header = usize::from(received[0] & 0xf) * 4;
    let mut packet = received[header..].to_vec();
    let checksum = packet[8..12].to_vec();
    packet[8..12].fill(0);
    packet[2..4] == port.to_be_bytes() && checksum == crc32c(&packet).to_le_bytes()
}

#[test]
fn one_port_number_is_three_services_under_three_protocols() {
    let Some(world) = World::new() else {
        return;
    };
    let of = [
        ("TCP", addresses::POD_A),
        ("UDP", addresses::POD_B),
        ("SCTP", addresses::POD_D),
    ];
    let ports: Vec<Value> = of
        .iter()
        .map(|(protocol, _)| json!({ "name": protocol, "port": 53, "protocol": protocol }))
        .collect();
    world
        .server
        .put(with(service("dns", IP), "/spec/ports", ports));
    for (protocol, pod) in of {
        let pods = slice("dns", &protocol.to_lowercase(), &[ready(pod)]);
        let ports = json!([{ "name": protocol, "port": 8080, "protocol": protocol }]);
        world.server.put(with(pods, "/ports", ports));
    }
    let client = world.pod();
    let at: SocketAddr = SocketAddr::new(IP.parse().unwrap(), 53);
    world.await_pods(client, Target::tcp(at), &["pod-a"]);
    world.await_pods(client, Target::udp(at), &["pod-b"]);

    let raw = |namespace: &Namespace| {
        let protocol = Some(Protocol::from(SCTP));
        let socket = namespace.enter(|| Socket::new(Domain::IPV4, Type::RAW, protocol));
        UdpSocket::from(OwnedFd::from(socket.unwrap()))
    };
    let server = raw(world.sandbox.pod("pod-d").namespace());
    let patience = Duration::from_millis(200);
    server.set_read_timeout(Some(patience)).unwrap();
    let client = raw(client);
    let arrived = wait_until("SCTP arrives at pod-d", SOON, || {
        client.send_to(&sctp_init(53), (at.ip(), 0)).unwrap();
        let mut packet = [0; 256];
        let length = server.recv(&mut packet).ok()?;
        is_for(&packet[..length], 8080).then_some(())
    });
    let counters = || world.shunt("status")["counters"].clone();
    arrived.unwrap_or_else(|error| panic!("{error}: {:#}", counters()));
}

#[test]
fn free_addresses_of_the_clusters_ranges_are_dropped_without_a_flag() {
    let Some(world) = World::with(&[], |server| {
        server.put(node("node-1", addresses::NODE));
        server.put(service_cidr("kubernetes", &["10.96.0.0/16"]));
        server.put(service("web", IP));
        server.put(slice("web", "4", &[ready(addresses::POD_A)]));
    }) else {
        return;
    };
    let client = world.pod();
    world.await_pods(client, tcp(IP, 80), &["pod-a"]);
    world.await_failure(client, tcp(IP, 81), is_refused);
    let dropped = || {
        let counters = world.shunt("status")["counters"].clone();
        counters["drop_free_address"].as_u64().unwrap()
    };
    // Returns whether a datagram to an address without a host is dropped here.
    let is_dropped = |ip: &str| {
        let at = SocketAddr::new(ip.parse().unwrap(), 80);
        let before = dropped();
        let answer = client.enter(|| Target::udp(at).within(SILENCE).ask(REQUEST));
        assert!(answer.is_err(), "{answer:?}");
        dropped() > before
    };
    assert!(is_dropped("10.96.0.77"));
    assert!(!is_dropped("10.97.0.77"));
    // Another range, and the first no more.
    let further = service_cidr("further", &["10.97.0.0/24"]);
    world.server.put(further);
    world.server.delete(&service_cidr("kubernetes", &[]));
    let moved = wait_until("the ranges are followed", SOON, || {
        (is_dropped("10.97.0.77") && !is_dropped("10.96.0.77")).then_some(())
    });
    moved.unwrap();
    assert!(!is_dropped("10.97.1.77"));
    // A ClusterIP is guarded whether or not a range is known.
    world.await_failure(client, tcp(IP, 81), is_refused);
    world.await_pods(client, tcp(IP, 80), &["pod-a"]);
}

#[test]
fn node_ports_of_other_nodes_are_left_alone_where_the_policy_is_local() {
    let Some(world) = World::with(&["--remote-node-ports"], |server| {
        server.put(node("node-1", addresses::NODE));
        server.put(node("node-2", addresses::NODE2));
        let local = with_node_port("local", "10.96.0.11", 30_081);
        server.put(and(local, "/spec", "externalTrafficPolicy", "Local"));
        server.put(with_node_port("cluster", "10.96.0.12", 30_082));
        for name in ["local", "cluster"] {
            server.put(slice(name, "4", &[ready(addresses::POD_A)]));
        }
    }) else {
        return;
    };
    let there = |port| tcp(&addresses::NODE2.to_string(), port);
    world.await_pods(world.pod(), there(30_082), &["pod-a"]);
    // The packet goes to node-2 itself, where no server listens.
    let answer = world.pod().enter(|| there(30_081).ask(REQUEST));
    assert!(answer.as_ref().is_err_and(is_refused), "{answer:?}");
    let frontends = world.frontends();
    let IpAddr::V4(node2) = addresses::NODE2 else {
        unreachable!("it is of IPv4");
    };
    let key = |ip: Ipv4Addr, port: u16| format!("{ip}:{port}/TCP");
    assert!(frontends.contains_key(&key(node2, 30_082)), "{frontends:?}");
    assert!(
        !frontends.contains_key(&key(node2, 30_081)),
        "{frontends:?}"
    );
    let here = tcp(&addresses::NODE.to_string(), 30_081);
    world.await_pods(world.pod(), here, &["pod-a"]);
}
