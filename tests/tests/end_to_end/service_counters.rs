//! Counters of each service port, with real clients: exactly what they did.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    time::Duration,
};

use serde_json::{Value, json};
use shunt_tests::{Transport, patience};

use crate::{
    host_world::HostWorld,
    http::ASKED,
    service::Service,
    world::{Unattended, World, resync_with},
};

/// The flag that has packets counted, and those that have all shown.
fn flags() -> Vec<&'static str> {
    [&ASKED[..], &["--count-service-traffic"]].concat()
}

/// Returns the value of a metric of the service port `default/web:main`.
fn metric(world: &World, name: &str, label: &str) -> Option<u64> {
    let series = format!("{name}{{namespace=\"default\",service=\"web\",port=\"main\"{label}}}");
    world.metric(&series).map(|value| value as u64)
}

fn connections(world: &World) -> Option<u64> {
    metric(world, "shunt_service_connections_total", "")
}

/// Returns the counters of the service port in `shunt services`, by one of its frontends.
fn counters(world: &World) -> Value {
    let services = world.shunt(&["services", "-o", "json"]).json();
    services[0]["counters"].clone()
}

/// The next agent takes the world over, with these flags, and gets what was known.
fn start(unattended: Unattended, flags: &[&str], services: &[Value]) -> World {
    let mut world = unattended.start(flags);
    world.apply(&resync_with(services));
    world
}

#[test]
fn connections_and_rejections_are_those_that_clients_made() {
    let Some(mut world) = World::with_flags(&ASKED) else {
        return;
    };
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    world.add(&service);
    assert_eq!(connections(&world), Some(0));
    world.ask_from_pod(service.cluster_ip(), 20);
    let outside = world.sandbox.outside();
    let tally = outside.enter(|| service.node_port().ask_times(7, 100));
    assert!(tally.failures.is_empty(), "{tally:#?}");
    assert_eq!(connections(&world), Some(27));

    let refused = |world: &World| metric(world, "shunt_service_refused_total", "");
    assert_eq!(refused(&world), Some(0));
    let empty = Service::new(Transport::Tcp);
    world.update(&empty);
    for _ in 0..5 {
        let asked = world.client_pod().enter(|| empty.cluster_ip().ask(1));
        asked.unwrap_err();
    }
    let rejected = |world: &World| {
        let label = ",reason=\"no_backend\"";
        metric(world, "shunt_service_rejected_total", label)
    };
    assert_eq!((rejected(&world), refused(&world)), (Some(5), Some(5)));
    assert_eq!(connections(&world), Some(27), "no further one");
    assert_eq!(
        counters(&world),
        json!({ "connections": 27, "refused": { "reject_no_backend": 5 } })
    );
    let table = world.shunt(&["services"]).clean();
    let row = table.lines().last().unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    let expected = ["default/web", "main", "27", "5", "0", "-", "-", "-", "-"];
    assert_eq!(cells, expected, "{table}");

    // The counts survive agents, however they end.
    let known = [service.json()];
    let larger = [&ASKED[..], &["--max-services", "20000"]].concat();
    let world = start(world.killed(), &larger, &known);
    assert_eq!((connections(&world), rejected(&world)), (Some(27), Some(5)));
    world.ask_from_pod(service.cluster_ip(), 3);
    let mut world = start(world.stopped(), &ASKED, &known);
    assert_eq!(connections(&world), Some(30));

    // They go with the service.
    world.apply(&Service::delete());
    assert_eq!((connections(&world), rejected(&world)), (None, None));
    world.add(&service);
    assert_eq!((connections(&world), rejected(&world)), (Some(0), None));
    world.ask_from_pod(service.cluster_ip(), 2);
    assert_eq!(connections(&world), Some(2));

    // What is gone when the next agent comes does not come back.
    let world = start(world.killed(), &ASKED, &[]);
    assert_eq!(connections(&world), None);
    let mut world = world;
    world.add(&service);
    assert_eq!(connections(&world), Some(0));
}

/// Asks with datagrams of these lengths; returns the bytes that went, and those that came back, with IP and UDP
/// headers of so many bytes.
fn exchange(local: IpAddr, frontend: SocketAddr, lengths: &[usize], headers: usize) -> [u64; 2] {
    let socket = UdpSocket::bind((local, 0)).unwrap();
    socket.connect(frontend).unwrap();
    socket
        .set_read_timeout(Some(patience(Duration::from_secs(5))))
        .unwrap();
    let mut bytes = [0, 0];
    for length in lengths {
        socket.send(&vec![7; *length]).unwrap();
        let answer = socket.recv(&mut [0; 2048]).unwrap();
        bytes[0] += (length + headers) as u64;
        bytes[1] += (answer + headers) as u64;
    }
    bytes
}

#[test]
fn packets_and_bytes_are_those_that_were_sent() {
    let flags = flags();
    let Some(mut world) = World::with_flags(&flags) else {
        return;
    };
    let service = Service::new(Transport::Udp)
        .dual_stack()
        .backend(world.backend("pod-a"))
        .backend(world.backend_v6("pod-a"));
    world.add(&service);
    let lengths = [1, 100, 1200, 1200, 18, 400];
    let exchange = |world: &World| {
        let (v4, v6) = (service.cluster_ip(), service.cluster_ip_v6());
        let (v4, v6) = (v4.address(), v6.address());
        let of_v4 = || exchange(Ipv4Addr::UNSPECIFIED.into(), v4, &lengths, 20 + 8);
        let of_v6 = || exchange(Ipv6Addr::UNSPECIFIED.into(), v6, &lengths, 40 + 8);
        let client = world.client_pod();
        let [a, b] = [client.enter(of_v4), client.enter(of_v6)];
        [a[0] + b[0], a[1] + b[1]]
    };
    let [there, back] = exchange(&world);
    let shown = |world: &World| {
        let kinds = ["request", "reply"].map(|kind| format!(",kind=\"{kind}\""));
        ["shunt_service_packets_total", "shunt_service_bytes_total"]
            .map(|name| kinds.clone().map(|kind| metric(world, name, &kind)))
    };
    let packets = 2 * lengths.len() as u64;
    assert_eq!(
        shown(&world),
        [[Some(packets); 2], [Some(there), Some(back)]]
    );
    assert_eq!(connections(&world), Some(2));
    assert_eq!(
        counters(&world),
        json!({
            "connections": 2, "refused": {},
            "request_packets": packets, "request_bytes": there,
            "reply_packets": packets, "reply_bytes": back,
        })
    );

    // The next agent goes on.
    let known = [service.json()];
    let larger = [&flags[..], &["--max-services", "20000"]].concat();
    let world = start(world.killed(), &larger, &known);
    let [more, more_back] = exchange(&world);
    assert_eq!(
        shown(&world),
        [
            [Some(2 * packets); 2],
            [Some(there + more), Some(back + more_back)]
        ]
    );

    // An agent that does not count forgets them, and one that counts again begins anew.
    let world = start(world.killed(), &ASKED, &known);
    assert_eq!(shown(&world), [[None; 2]; 2]);
    exchange(&world);
    assert_eq!(connections(&world), Some(6));
    let world = start(world.killed(), &flags, &known);
    assert_eq!(shown(&world), [[Some(0); 2]; 2]);
    let [there, back] = exchange(&world);
    assert_eq!(
        shown(&world),
        [[Some(packets); 2], [Some(there), Some(back)]]
    );
}

#[test]
fn metrics_leave_services_out_where_a_flag_says_so() {
    let flags = [&ASKED[..], &["--service-metrics=false"]].concat();
    let Some(mut world) = World::with_flags(&flags) else {
        return;
    };
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    world.add(&service);
    world.ask_from_pod(service.cluster_ip(), 2);
    assert_eq!(connections(&world), None);
    assert_eq!(counters(&world)["connections"], 2);
}

#[test]
fn a_socket_that_is_translated_counts_as_a_connection_and_a_refused_one_as_rejected() {
    let Some(mut host) = HostWorld::new("host") else {
        return;
    };
    let service = host.serve(Transport::Tcp);
    for frontend in [service.cluster_ip(), service.cluster_ip_v6()] {
        for _ in 0..4 {
            host.ask("tcp", frontend.address()).unwrap();
        }
    }
    assert_eq!(counters(&host.world)["connections"], 8);
    assert_eq!(host.count("connection"), 0, "no packet is translated");
    let empty = Service::new(Transport::Tcp).dual_stack();
    host.world.update(&empty);
    for frontend in [empty.cluster_ip(), empty.cluster_ip_v6()] {
        for _ in 0..3 {
            host.ask("tcp", frontend.address()).unwrap_err();
        }
    }
    assert_eq!(
        counters(&host.world),
        json!({ "connections": 8, "refused": { "reject_no_backend": 6 } })
    );
    // A datagram of a socket that serves many.
    let service = host.serve(Transport::Udp);
    host.ask("sendto", service.cluster_ip().address()).unwrap();
    assert_eq!(counters(&host.world)["connections"], 9);
}
