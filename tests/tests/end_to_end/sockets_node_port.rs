//! NodePorts, asked by processes of the node, and its ports that they may not have.

use std::net::{IpAddr, SocketAddr};

use serde_json::json;
use shunt_tests::{Server, addresses};

use crate::{
    host_world::{HostWorld, mapped, service, with_node_port},
    syscalls::Caller,
};

#[test]
fn a_node_port_is_at_every_address_of_the_nodes_and_at_the_loopback_addresses() {
    let Some(host) = HostWorld::with_a_node_port() else {
        return;
    };
    let mut caller = host.caller();
    let (node_v6, node2_v6) = (
        addresses::v6(addresses::NODE),
        addresses::v6(addresses::NODE2),
    );
    let mut ask = |address: &str, family: &str, named: &str| {
        caller.calls(&format!(
            "open t tcp{family}; connect t {address} -> ok; getpeername t -> {named};
             send t text; recv t -> pod-a saw; open c udp{family}; connect c {address} -> ok;
             getpeername c -> {named}; send c text; recvfrom c -> {named} pod-a;
             open u udp{family}; sendto u {address} text -> ok; recvfrom u -> {named} pod-a"
        ));
    };
    for address in [
        "192.168.16.10:30080",
        "192.168.16.20:30080",
        "127.0.0.1:30080",
        "127.1.2.3:30080",
    ] {
        ask(address, "4", address);
        let mapped = format!("[::ffff:{}", address.replace(':', "]:"));
        ask(&mapped, "6", &mapped);
    }
    let (node, node2) = (format!("[{node_v6}]:30080"), format!("[{node2_v6}]:30080"));
    for address in [&node, &node2, "[::1]:30080"] {
        ask(address, "6", address);
    }
    // The kernel takes the unspecified address for the loopback one, and returns that.
    ask("0.0.0.0:30080", "4", "127.0.0.1:30080");
    ask("[::]:30080", "6", "[::1]:30080");
    ask("[::ffff:0.0.0.0]:30080", "6", "[::ffff:127.0.0.1]:30080");
    assert_eq!(host.count("connection"), 0, "no packet is translated");
}

#[test]
fn a_node_port_of_another_node_is_left_alone_where_the_policy_is_local() {
    let Some(mut host) = HostWorld::new("host") else {
        return;
    };
    host.know_nodes();
    let node2 = [addresses::NODE2, addresses::v6(addresses::NODE2)];
    let _server = Server::start(host.world.sandbox.node2(), "node2", &node2, &[30080]).unwrap();
    let backends = [host.world.backend("pod-a"), host.world.backend_v6("pod-a")];
    let mut service = with_node_port(service("np", "10.96.0.10", &backends), 30080);
    let counters = [
        "socket_connect",
        "socket_datagram",
        "socket_reject",
        "socket_drop",
    ];
    let [v4, v6] = node2.map(|ip| SocketAddr::new(ip, 30080));
    for (policy, name, counts) in [
        ("Local", "node2", [0, 0, 0, 0]),
        ("Cluster", "pod-a", [6, 3, 0, 0]),
    ] {
        service["traffic_policy"] = policy.into();
        host.update(std::slice::from_ref(&service));
        let mut caller = host.caller();
        for (family, address) in [("4", v4), ("6", v6), ("6", mapped(v4))] {
            caller.calls(&format!(
                "open t tcp{family}; connect t {address} -> ok; getpeername t -> {address};
                 send t text; recv t -> {name} saw; open c udp{family}; connect c {address} -> ok;
                 send c text; recvfrom c -> {address} {name}; open u udp{family};
                 sendto u {address} text -> ok; recvfrom u -> {address} {name}"
            ));
        }
        assert_eq!(
            counters.map(|counter| host.count(counter)),
            counts,
            "{policy}"
        );
    }
}

#[test]
fn what_is_no_node_port_is_not_at_the_loopback_addresses() {
    let Some(mut host) = HostWorld::new("host") else {
        return;
    };
    let backend = host.world.backend("pod-a");
    // An address of the node itself is the service's, at a port that is no NodePort.
    let mut external = with_node_port(service("ext", "10.96.0.10", &[backend]), 30080);
    external["external_ips"] = json!([addresses::NODE]);
    host.update(&[external]);
    host.caller().calls(
        "open a tcp4; connect a 192.168.16.10:80 -> ok; send a text; recv a -> pod-a;
         open b tcp4; connect b 127.0.0.1:80 -> ECONNREFUSED; open c tcp4; connect c 0.0.0.0:80 -> ECONNREFUSED;
         open d udp4; sendto d 192.168.16.10:80 text; recvfrom d -> 192.168.16.10:80 pod-a;
         open e udp4; connect e 127.0.0.1:80 -> ok; getpeername e -> 127.0.0.1:80; send e text;
         recv e -> ECONNREFUSED; open f tcp4; connect f 127.0.0.1:30081 -> ECONNREFUSED;
         open g tcp4; connect g 198.51.100.1:30080 -> ECONNREFUSED",
    );
    // The three that found no server are the host's own refusals.
    assert_eq!(host.count("socket_reject"), 0);
}

#[test]
fn a_socket_of_the_host_at_a_loopback_address_is_asked_before_a_node_port() {
    let Some(mut host) = HostWorld::new("host") else {
        return;
    };
    let mut caller = host.caller();
    caller.calls(
        "open l udp4; bind l 127.0.0.1:30080 -> ok; open s udp4; sendto s 127.0.0.1:30080 text -> ok; recv l",
    );
    host.know_nodes();
    let backends = [host.world.backend("pod-a"), host.world.backend_v6("pod-a")];
    host.update(&[with_node_port(
        service("np", "10.96.0.10", &backends),
        30080,
    )]);
    caller.calls(
        "sendto s 127.0.0.1:30080 text -> ok; recv l -> \"text\"; close l;
         sendto s 127.0.0.1:30080 text -> ok; recvfrom s -> 127.0.0.1:30080 pod-a; close s",
    );
    let loopback = ["127.0.0.1", "::1"].map(|ip| ip.parse::<IpAddr>().unwrap());
    let node = [addresses::NODE, addresses::v6(addresses::NODE)];
    let ask = |caller: &mut Caller, [v4, v6]: [IpAddr; 2], name: &str| {
        for (family, at) in [("4", v4), ("6", v6)] {
            let at = SocketAddr::new(at, 30080);
            caller.calls(&format!(
                "open t tcp{family}; connect t {at} -> ok; send t text; recv t -> {name} saw; close t;
                 open u udp{family}; sendto u {at} text -> ok; recvfrom u -> {at} {name}; close u"
            ));
        }
    };
    // It has IPv4's too.
    let any = ["::".parse().unwrap()];
    for at in [&loopback[..], &any] {
        let server = Server::start(host.world.sandbox.node(), "host", at, &[30080]).unwrap();
        ask(&mut caller, loopback, "host");
        ask(&mut caller, node, "pod-a");
        drop(server);
        ask(&mut caller, loopback, "pod-a");
    }
}

#[test]
fn loopback_addresses_have_no_node_ports_where_that_is_not_wanted() {
    let flags = ["--iptables-localhost-nodeports=false"];
    let Some(mut host) = HostWorld::with_flags("host", &flags) else {
        return;
    };
    host.know_nodes();
    let backends = [host.world.backend("pod-a"), host.world.backend_v6("pod-a")];
    host.update(&[with_node_port(
        service("np", "10.96.0.10", &backends),
        30080,
    )]);
    host.caller().calls(
        "open a tcp4; connect a 127.0.0.1:30080 -> ECONNREFUSED; open b tcp6; connect b [::1]:30080 -> ECONNREFUSED;
         open c tcp4; connect c 0.0.0.0:30080 -> ECONNREFUSED; open d udp4; connect d 127.0.0.1:30080 -> ok;
         send d text; recv d -> ECONNREFUSED; open e tcp4; connect e 192.168.16.10:30080 -> ok; send e text;
         recv e -> pod-a saw",
    );
}

#[test]
fn ports_of_node_ports_are_refused_where_that_is_wanted() {
    for is_protected in [true, false] {
        let flags: &[&str] = if is_protected {
            &["--protect-node-ports"]
        } else {
            &[]
        };
        let Some(mut host) = HostWorld::with_flags("host", flags) else {
            return;
        };
        host.know_nodes();
        let backend = host.world.backend("pod-a");
        host.update(&[with_node_port(
            service("np", "10.96.0.10", &[backend]),
            30080,
        )]);
        let mut caller = host.caller();
        let refused = if is_protected { "EADDRINUSE" } else { "ok" };
        let node_v6 = addresses::v6(addresses::NODE);
        let at = ["0.0.0.0", "192.168.16.10", "127.0.0.1"].map(|ip| format!("{ip}:30080"));
        let at_v6 = [
            "::".to_owned(),
            node_v6.to_string(),
            "::1".to_owned(),
            "::ffff:0.0.0.0".to_owned(),
            "::ffff:192.168.16.10".to_owned(),
        ]
        .map(|ip| format!("[{ip}]:30080"));
        for (family, addresses) in [("4", &at[..]), ("6", &at_v6)] {
            for address in addresses {
                for transport in ["tcp", "udp"] {
                    caller.calls(&format!(
                        "open s {transport}{family}; bind s {address} -> {refused}; close s"
                    ));
                }
            }
        }
        let count = if is_protected { 16 } else { 0 };
        // An agent that refuses nothing does not count what it refuses.
        assert_eq!(host.count("bind_refused"), count);
        // Ports that are no NodePort, the ClusterIP's port, any port at all, addresses that no NodePort has.
        caller.calls(
            "open a tcp4; bind a 0.0.0.0:30081 -> ok; open b tcp4; bind b 0.0.0.0:80 -> ok;
             open c tcp4; bind c 0.0.0.0:0 -> ok; open d tcp4; bind d 198.51.100.1:30080 -> ok;
             open e udp6; bind e [::]:30081 -> ok",
        );
        // A pod's ports are its own.
        let pod = host.world.sandbox.pod("pod-c").namespace();
        Caller::start(&host.cgroup, pod)
            .calls("open s tcp4; bind s 0.0.0.0:30080 -> ok; open u udp6; bind u [::]:30080 -> ok");
    }
}
