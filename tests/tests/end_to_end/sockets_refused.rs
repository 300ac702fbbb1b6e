//! Frontends that a process of the node gets no backend of: it gets the error at once.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use serde_json::json;
use shunt_tests::addresses;

use crate::host_world::{HostWorld, service, with_node_port};

/// Nothing was waited for.
const AT_ONCE: Duration = Duration::from_secs(3);

/// Every way to ask 10.96.0.10 and its IPv6 address, `REFUSED` is the error.
const EVERY_WAY: &str = "open t tcp4; connect t 10.96.0.10:80 -> REFUSED; getpeername t -> ENOTCONN;
    open n tcp4; nonblocking n; connect n 10.96.0.10:80 -> REFUSED;
    open f tcp4; sendto-fastopen f 10.96.0.10:80 text -> REFUSED;
    open c udp4; connect c 10.96.0.10:80 -> REFUSED; getpeername c -> ENOTCONN;
    open u udp4; sendto u 10.96.0.10:80 text -> REFUSED; sendmmsg u 10.96.0.10:80 text -> REFUSED;
    open t6 tcp6; connect t6 [fd00:10:96::10]:80 -> REFUSED; connect t6 [::ffff:10.96.0.10]:80 -> REFUSED;
    open u6 udp6; connect u6 [fd00:10:96::10]:80 -> REFUSED; sendto u6 [fd00:10:96::10]:80 text -> REFUSED;
    sendto u6 [::ffff:10.96.0.10]:80 text -> REFUSED; connect u6 [::ffff:10.96.0.10]:80 -> REFUSED";

/// Number of these calls.
const REFUSALS: u64 = 12;

/// Makes every call with this error.
fn refused_everywhere(host: &HostWorld, error: &str) {
    let before = Instant::now();
    host.caller().calls(&EVERY_WAY.replace("REFUSED", error));
    let took = before.elapsed();
    assert!(took < AT_ONCE, "the calls took {took:?}");
}

#[test]
fn a_service_without_a_backend_refuses_at_once() {
    let Some(mut host) = HostWorld::new("host") else {
        return;
    };
    host.update(&[service("none", "10.96.0.10", &[])]);
    refused_everywhere(&host, "ECONNREFUSED");
    assert_eq!(host.count("socket_reject"), REFUSALS);

    // A socket that was refused is as good as new.
    let backend = host.world.backend("pod-a");
    let mut caller = host.caller();
    caller.calls(
        "open t tcp4; connect t 10.96.0.10:80 -> ECONNREFUSED; open u udp4;
         connect u 10.96.0.10:80 -> ECONNREFUSED; sendto u 10.96.0.10:80 text -> ECONNREFUSED",
    );
    host.update(&[service("none", "10.96.0.10", &[backend])]);
    caller.calls(
        "connect t 10.96.0.10:80 -> ok; send t text; recv t -> pod-a; getpeername t -> 10.96.0.10:80;
         sendto u 10.96.0.10:80 text; recvfrom u -> 10.96.0.10:80 pod-a; connect u 10.96.0.10:80 -> ok;
         send u text; recvfrom u -> 10.96.0.10:80 pod-a",
    );

    // Nor does a socket lose its peer by a call that is refused.
    host.update(&[service("other", "10.96.0.11", &[])]);
    caller.calls(
        "connect u 10.96.0.11:80 -> ECONNREFUSED; getpeername u -> 10.96.0.10:80; send u text;
         recvfrom u -> 10.96.0.10:80 pod-a",
    );

    // Backends that get nothing new are none.
    for unusable in [json!({"state": "NotReady"}), json!({"weight": 0})] {
        let mut idle = service("none", "10.96.0.10", &[backend]);
        for port in ["tcp", "udp"] {
            let backend = idle["backends"][port][0].as_object_mut().unwrap();
            backend.extend(unusable.as_object().unwrap().clone());
        }
        host.update(&[idle]);
        refused_everywhere(&host, "ECONNREFUSED");
    }
    // The connections that are open go on; the datagrams have no backend.
    caller.calls(
        "send t text; recv t -> pod-a; disconnect u; sendto u 10.96.0.10:80 text -> ECONNREFUSED",
    );
}

#[test]
fn a_service_that_is_local_to_other_nodes_is_not_permitted() {
    let Some(mut host) = HostWorld::new("host") else {
        return;
    };
    let remote = [host.world.backend("pod-d"), host.world.backend_v6("pod-d")];
    let mut service = service("local", "10.96.0.10", &remote);
    service["internal_traffic_policy"] = "Local".into();
    host.update(&[service]);
    refused_everywhere(&host, "EPERM");
    assert_eq!(host.count("socket_drop"), REFUSALS);
    assert_eq!(host.count("socket_reject"), 0);
}

#[test]
fn only_source_ranges_that_have_the_process_address_let_it_in() {
    let Some(mut host) = HostWorld::new("host") else {
        return;
    };
    let backend = host.world.backend("pod-a");
    let mut ranged = with_node_port(service("ranged", "10.96.0.10", &[backend]), 30080);
    ranged["load_balancer_ips"] = json!(["203.0.113.9"]);
    let mut caller = host.caller();
    let mut ask = |ranges: &[&str], bound: &str, error: &str| {
        ranged["load_balancer_source_ranges"] = json!(ranges);
        host.update(&[ranged.clone()]);
        for (name, kind) in [("t", "tcp4"), ("u", "udp4")] {
            let bind = if bound.is_empty() {
                String::new()
            } else {
                format!("bind {name} {bound}:0 -> ok")
            };
            caller.calls(&format!(
                "open {name} {kind}; {bind}; connect {name} 203.0.113.9:80 -> {error}"
            ));
        }
        caller.calls("open n tcp4; connect n 10.96.0.10:80 -> ok; open n tcp4; connect n 192.168.16.10:30080 -> ok");
    };
    // It counts as the node's primary address, or as the one that it is bound to.
    ask(&["192.0.2.0/24"], "", "EPERM");
    ask(&["192.168.16.10/32"], "", "ok");
    ask(&["192.168.16.10/32"], "198.51.100.1", "EPERM");
    ask(&["198.51.100.0/24"], "198.51.100.1", "ok");
    ask(&["198.51.100.0/24"], "", "EPERM");
    ask(&["0.0.0.0/0"], "", "ok");
    assert_eq!(host.count("socket_drop"), 6);
}

#[test]
fn source_ranges_hold_for_ipv6_sockets_by_the_family_that_they_ask() {
    let Some(mut host) = HostWorld::new("host") else {
        return;
    };
    host.know_nodes();
    let second: IpAddr = [198, 51, 100, 1].into();
    let (primary_v6, second_v6) = (addresses::v6(addresses::NODE), addresses::v6(second));
    let backends = [host.world.backend("pod-a"), host.world.backend_v6("pod-a")];
    let mut ranged = service("ranged", "10.96.0.10", &backends);
    ranged["load_balancer_ips"] = json!(["203.0.113.9", "fd00:203::9"]);
    let (v6, mapped) = ("[fd00:203::9]:80", "[::ffff:203.0.113.9]:80");
    let mut caller = host.caller();
    let mut ask = |range: &str, bound: &str, address: &str, error: &str| {
        ranged["load_balancer_source_ranges"] = json!([range]);
        host.update(std::slice::from_ref(&ranged));
        for (name, kind) in [("t", "tcp6"), ("u", "udp6")] {
            let bind = if bound.is_empty() {
                String::new()
            } else {
                format!("bind {name} [{bound}]:0 -> ok")
            };
            caller.calls(&format!(
                "open {name} {kind}; {bind}; connect {name} {address} -> {error}"
            ));
        }
    };
    let of = |ip: &IpAddr| format!("{ip}/128");
    ask("2001:db8::/64", "", v6, "EPERM");
    ask(&of(&primary_v6), "", v6, "ok");
    ask(&of(&primary_v6), &second_v6.to_string(), v6, "EPERM");
    ask(&of(&second_v6), &second_v6.to_string(), v6, "ok");
    ask(&of(&second_v6), "", v6, "EPERM");
    // An IPv6 socket that asks an IPv4 frontend is a client of IPv4.
    ask("192.0.2.0/24", "", mapped, "EPERM");
    ask("192.168.16.10/32", "", mapped, "ok");
    ask("192.168.16.10/32", "::ffff:198.51.100.1", mapped, "EPERM");
    ask("198.51.100.0/24", "::ffff:198.51.100.1", mapped, "ok");
    ask(&of(&primary_v6), "", mapped, "ok");
    assert_eq!(host.count("socket_drop"), 10);
}

#[test]
fn a_socket_of_a_loopback_address_gets_no_backend_elsewhere() {
    let Some(host) = HostWorld::with_a_node_port() else {
        return;
    };
    let mut caller = host.caller();
    for (family, bound, frontends) in [
        ("4", "127.0.0.1:0", ["10.96.0.10:80", "127.0.0.1:30080"]),
        ("6", "[::1]:0", ["[fd00:10:96::10]:80", "[::1]:30080"]),
        (
            "6",
            "[::ffff:127.0.0.1]:0",
            ["[::ffff:10.96.0.10]:80", "[::ffff:127.0.0.1]:30080"],
        ),
    ] {
        for frontend in frontends {
            caller.calls(&format!(
                "open t tcp{family}; bind t {bound} -> ok; connect t {frontend} -> EINVAL;
                 open u udp{family}; bind u {bound} -> ok; connect u {frontend} -> EINVAL;
                 getpeername u -> ENOTCONN; sendto u {frontend} text -> EINVAL"
            ));
        }
    }
}
