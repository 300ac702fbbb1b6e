//! Processes that are not quite the node's: pods, and pods in the node's network.

use std::net::SocketAddr;

use serde_json::json;
use shunt_tests::{Server, addresses};

use crate::{
    host_world::{HostWorld, service, with_node_port},
    syscalls::Caller,
};

/// The addresses of IPv4 connections that a namespace has, as in `/proc/net/tcp`.
const CLUSTER_IP: &str = "0A00600A:0050";
const POD_A: &str = "0301010A:1F90";

/// A process of a pod.
fn pod(host: &HostWorld, name: &str) -> Caller {
    Caller::start(&host.cgroup, host.world.sandbox.pod(name).namespace())
}

/// Returns whether the kernel's own table of the pod's connections has one with this address: that is what
/// its packets have.
fn has_connection(host: &HostWorld, name: &str, address: &str) -> bool {
    let namespace = host.world.sandbox.pod(name).namespace();
    let table = namespace
        .run_with_input("cat", &["/proc/net/tcp"], "")
        .unwrap();
    table.contains(address)
}

#[test]
fn a_pod_sees_the_cluster_ip_and_so_does_everyone_between() {
    let Some(mut host) = HostWorld::new("host") else {
        return;
    };
    let backend = host.world.backend("pod-a");
    host.update(&[service("web", "10.96.0.10", &[backend])]);
    let mut caller = pod(&host, "pod-c");
    caller.calls(
        "open t tcp4; connect t 10.96.0.10:80 -> ok; getpeername t -> 10.96.0.10:80; send t text;
         recv t -> pod-a saw 10.1.1.5 own; open c udp4; connect c 10.96.0.10:80 -> ok;
         getpeername c -> 10.96.0.10:80; send c text; recvfrom c -> 10.96.0.10:80 pod-a;
         open u udp4; sendto u 10.96.0.10:80 text; recvfrom u -> 10.96.0.10:80 pod-a",
    );
    assert!(has_connection(&host, "pod-c", CLUSTER_IP));
    assert!(!has_connection(&host, "pod-c", POD_A));
    assert_eq!(host.count("connection"), 3, "its packets are translated");
    assert_eq!(host.count("socket_connect"), 0);
    assert_eq!(host.count("socket_datagram"), 0);
}

#[test]
fn a_pod_is_a_client_at_its_socket_where_that_is_wanted_and_its_packets_do_the_rest() {
    let Some(mut host) = HostWorld::new("all") else {
        return;
    };
    let backend = host.world.backend("pod-a");
    let mut affine = service("affine", "10.96.0.11", &[backend]);
    affine["session_affinity_timeout"] = 100.into();
    let mut ranged = service("ranged", "10.96.0.12", &[backend]);
    ranged["load_balancer_ips"] = json!(["203.0.113.9"]);
    ranged["load_balancer_source_ranges"] = json!(["10.1.1.0/24"]);
    let web = with_node_port(service("web", "10.96.0.10", &[backend]), 30080);
    host.update(&[web, affine, ranged, service("none", "10.96.0.13", &[])]);
    let mut caller = pod(&host, "pod-c");
    let counts = |host: &HostWorld| {
        ["socket_connect", "socket_datagram", "connection"].map(|counter| host.count(counter))
    };

    caller.calls(
        "open t tcp4; connect t 10.96.0.10:80 -> ok; getpeername t -> 10.96.0.10:80; send t text;
         recv t -> pod-a saw 10.1.1.5 own",
    );
    assert_eq!(counts(&host), [1, 0, 0], "a TCP connection");
    assert!(has_connection(&host, "pod-c", POD_A));
    assert!(!has_connection(&host, "pod-c", CLUSTER_IP));
    caller.calls("open u udp4; sendto u 10.96.0.10:80 text; recvfrom u -> 10.96.0.10:80 pod-a saw 10.1.1.5 own");
    assert_eq!(counts(&host), [1, 1, 0], "a UDP socket without a peer");
    caller.calls(
        "open c udp4; connect c 10.96.0.10:80 -> ok; getpeername c -> 10.96.0.10:80; send c text;
         recvfrom c -> 10.96.0.10:80 pod-a",
    );
    assert_eq!(
        counts(&host),
        [1, 1, 1],
        "a UDP socket with one is left to packets"
    );
    for (number, frontend) in ["10.96.0.11:80", "203.0.113.9:80"].into_iter().enumerate() {
        caller.calls(&format!(
            "open t tcp4; connect t {frontend} -> ok; getpeername t -> {frontend}; send t text; recv t -> pod-a;
             open u udp4; sendto u {frontend} text; recvfrom u -> {frontend} pod-a"
        ));
        let by_packets = 3 + 2 * number as u64;
        assert_eq!(
            counts(&host),
            [1, 1, by_packets],
            "{frontend} depends on the pod's address"
        );
    }
    caller.calls(
        "open r tcp4; connect r 10.96.0.13:80 -> ECONNREFUSED; open l tcp4;
         connect l 127.0.0.1:30080 -> ECONNREFUSED; open n tcp4; connect n 192.168.16.10:30080 -> ok;
         getpeername n -> 192.168.16.10:30080",
    );
    assert_eq!(
        host.count("socket_reject"),
        1,
        "the pod's own loopback address is no NodePort"
    );
    assert_eq!(counts(&host), [2, 1, 5]);
}

#[test]
fn a_pod_reaches_itself_through_its_service() {
    for mode in ["host", "all"] {
        let Some(mut host) = HostWorld::new(mode) else {
            return;
        };
        let backends = [host.world.backend("pod-a"), host.world.backend_v6("pod-a")];
        host.update(&[service("web", "10.96.0.10", &backends)]);
        let mut caller = pod(&host, "pod-a");
        for (family, frontend) in [("4", "10.96.0.10:80"), ("6", "[fd00:10:96::10]:80")] {
            caller.calls(&format!(
                "open t tcp{family}; connect t {frontend} -> ok; getpeername t -> {frontend}; send t text;
                 recv t -> pod-a saw; open u udp{family}; sendto u {frontend} text; recvfrom u -> {frontend} pod-a saw;
                 open c udp{family}; connect c {frontend}; send c text; recvfrom c -> {frontend} pod-a saw"
            ));
        }
        let at_sockets = if mode == "all" { 4 } else { 0 };
        assert_eq!(
            host.count("socket_connect") + host.count("socket_datagram"),
            at_sockets
        );
    }
}

#[test]
fn a_pod_in_the_nodes_network_is_a_client_of_the_node() {
    let Some(mut host) = HostWorld::new("host") else {
        return;
    };
    let backend = host.world.backend("pod-a");
    host.update(&[with_node_port(
        service("web", "10.96.0.10", &[backend]),
        30080,
    )]);
    let mut caller = host.host_network_pod();
    caller.calls(
        "open t tcp4; connect t 10.96.0.10:80 -> ok; getpeername t -> 10.96.0.10:80; send t text;
         recv t -> pod-a; open c udp4; connect c 127.0.0.1:30080 -> ok; send c text;
         recvfrom c -> 127.0.0.1:30080 pod-a; open u udp4; sendto u 10.96.0.10:80 text;
         recvfrom u -> 10.96.0.10:80 pod-a",
    );
    assert_eq!(host.count("socket_connect"), 2);
    assert_eq!(host.count("socket_datagram"), 1);
    assert_eq!(host.count("connection"), 0, "no packet is translated");
}

#[test]
fn a_backend_that_is_the_node_itself_sees_its_own_processes_by_the_address_that_they_ask() {
    let Some(mut host) = HostWorld::new("host") else {
        return;
    };
    host.know_nodes();
    // As an API server has it.
    let node = [addresses::NODE, addresses::v6(addresses::NODE)];
    let _server = Server::start(host.world.sandbox.node(), "node", &node, &[6443]).unwrap();
    let backends = node.map(|ip| SocketAddr::new(ip, 6443));
    host.update(&[with_node_port(
        service("kubernetes", "10.96.0.1", &backends),
        30443,
    )]);
    let [v4, v6] = node;
    for mut caller in [host.caller(), host.host_network_pod()] {
        for (family, frontend, saw) in [
            ("4", "10.96.0.1:80", v4.to_string()),
            ("6", "[fd00:10:96::1]:80", v6.to_string()),
            ("6", "[::ffff:10.96.0.1]:80", v4.to_string()),
            ("4", "127.0.0.1:30443", v4.to_string()),
            ("6", "[::1]:30443", v6.to_string()),
        ] {
            caller.calls(&format!(
                "open t tcp{family}; connect t {frontend} -> ok; getpeername t -> {frontend}; send t text;
                 recv t -> node saw {saw} own; open c udp{family}; connect c {frontend} -> ok; send c text;
                 recvfrom c -> {frontend} node saw {saw} own; open u udp{family}; sendto u {frontend} text;
                 recvfrom u -> {frontend} node saw {saw}"
            ));
        }
    }
    assert_eq!(host.count("socket_connect"), 20);
    assert_eq!(host.count("socket_datagram"), 10);
    assert_eq!(host.count("connection"), 0, "no packet is translated");
}
