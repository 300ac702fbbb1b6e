//! The backend of a process of the node.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use serde_json::{Value, json};
use shunt_tests::addresses;

use crate::{
    host_world::{HostWorld, service, with_node_port},
    syscalls::Caller,
};

/// Returns the pods that answer a new socket that `open`s so, each time of many: their names, with the number of times.
fn who(caller: &mut Caller, times: usize, open: &str) -> BTreeMap<String, usize> {
    let mut names = BTreeMap::new();
    for _ in 0..times {
        let said = caller.calls(&format!(
            "{open}; send s text -> ok; recv s -> pod-; close s"
        ));
        let (_, reply) = said[said.len() - 2].split_once(" -> ").unwrap();
        let (name, _) = reply.split_once(' ').unwrap();
        *names.entry(name.to_owned()).or_default() += 1;
    }
    names
}

fn names(who: BTreeMap<String, usize>) -> BTreeSet<String> {
    who.into_keys().collect()
}

/// The name in the last result of these, a `recvfrom`.
fn sender(said: &[String]) -> String {
    let words: Vec<_> = said.last().unwrap().split(' ').collect();
    words[words.iter().position(|word| *word == "saw").unwrap() - 1].to_owned()
}

const TCP: &str = "open s tcp4; connect s 10.96.0.10:80 -> ok";
const UDP: &str = "open s udp4; connect s 10.96.0.10:80 -> ok";

/// Both ways to select; by a Maglev table, of which a socket draws an entry.
const SELECTIONS: [&str; 2] = ["weighted", "maglev"];

#[test]
fn backends_get_shares_by_their_weights() {
    for selection in SELECTIONS {
        shares_are_weights(selection);
    }
}

fn shares_are_weights(selection: &str) {
    let Some(mut host) = HostWorld::new("host") else {
        return;
    };
    let backends = ["pod-a", "pod-b"].map(|pod| host.world.backend(pod));
    let mut weighted = service("web", "10.96.0.10", &backends);
    weighted["selection"] = selection.into();
    for protocol in ["tcp", "udp"] {
        weighted["backends"][protocol][0]["weight"] = 3.into();
    }
    host.update(&[weighted]);
    let mut caller = host.caller();
    for open in [TCP, UDP] {
        // Of 200 drawn with a chance of 3/4, the standard deviation is 6.
        let shares = who(&mut caller, 200, open);
        assert!((114..=186).contains(&shares["pod-a"]), "{open}: {shares:?}");
        assert_eq!(shares["pod-a"] + shares["pod-b"], 200);
    }
}

#[test]
fn session_affinity_is_to_the_process_address() {
    for selection in SELECTIONS {
        clients_stay(selection);
    }
}

fn clients_stay(selection: &str) {
    let Some(mut host) = HostWorld::new("host") else {
        return;
    };
    let pods = ["pod-a", "pod-b", "pod-d"];
    let mut backends: Vec<_> = pods.map(|pod| host.world.backend(pod)).to_vec();
    let affine = |backends: &[_]| {
        let mut affine = service("web", "10.96.0.10", backends);
        affine["session_affinity_timeout"] = 100.into();
        affine["selection"] = selection.into();
        affine
    };
    host.update(&[affine(&backends)]);
    let status = host.world.shunt(&["status", "-o", "json"]).json();
    let tables = u64::from(selection == "maglev");
    assert_eq!(status["maglev"]["tables"], tables, "TCP and UDP share one");
    let mut caller = host.caller();
    let sendto = "open s udp4; sendto s 10.96.0.10:80 text; recvfrom s -> 10.96.0.10:80";
    let of_udp = names(who(&mut caller, 20, UDP));
    assert_eq!(of_udp.len(), 1, "{of_udp:?}");
    for _ in 0..5 {
        let name = sender(&caller.calls(sendto));
        assert!(
            of_udp.contains(&name),
            "connected or not: {of_udp:?}, {name}"
        );
    }
    let of_tcp = names(who(&mut caller, 20, TCP));
    assert_eq!(of_tcp.len(), 1, "{of_tcp:?}");
    // The primary address is the same client as one that is bound to none.
    let bound = "open s tcp4; bind s 192.168.16.10:0; connect s 10.96.0.10:80 -> ok";
    assert_eq!(names(who(&mut caller, 10, bound)), of_tcp);
    // Of 20 other clients some get another backend: all the same has a chance of 3^-19.
    let mut of_others = BTreeSet::new();
    for last in 100..120 {
        let node = host.world.sandbox.node();
        node.configure(&format!("address add 198.51.100.{last}/32 dev eth0\n"))
            .unwrap();
        let bound =
            format!("open s tcp4; bind s 198.51.100.{last}:0; connect s 10.96.0.10:80 -> ok");
        let of_one = names(who(&mut caller, 3, &bound));
        assert_eq!(of_one.len(), 1, "{of_one:?}");
        of_others.extend(of_one);
    }
    assert!(of_others.len() > 1, "{of_others:?}");
    // Its backend leaves: it gets another one, and stays there.
    let left = pods.iter().position(|pod| of_tcp.contains(*pod)).unwrap();
    backends.remove(left);
    host.update(&[affine(&backends)]);
    let after = names(who(&mut caller, 20, TCP));
    assert!(
        after.len() == 1 && after.is_disjoint(&of_tcp),
        "{of_tcp:?}, then {after:?}"
    );
}

#[test]
fn session_affinity_holds_for_ipv6_sockets_by_the_family_that_they_ask() {
    let Some(mut host) = HostWorld::new("host") else {
        return;
    };
    host.know_nodes();
    let pods = ["pod-a", "pod-b", "pod-d"];
    let backends: Vec<_> = pods
        .into_iter()
        .flat_map(|pod| [host.world.backend(pod), host.world.backend_v6(pod)])
        .collect();
    let mut affine = service("web", "10.96.0.10", &backends);
    affine["session_affinity_timeout"] = 100.into();
    host.update(&[affine]);
    let mut caller = host.caller();
    let of_v4 = names(who(&mut caller, 5, TCP));
    let mapped = "open s tcp6; connect s [::ffff:10.96.0.10]:80 -> ok";
    assert_eq!(names(who(&mut caller, 20, mapped)), of_v4);
    let v6 = "open s tcp6; connect s [fd00:10:96::10]:80 -> ok";
    let of_v6 = names(who(&mut caller, 20, v6));
    assert_eq!(of_v6.len(), 1, "{of_v6:?}");
    // The primary address is the same client as one that is bound to none, and others are not.
    let bound =
        |ip: IpAddr| format!("open s tcp6; bind s [{ip}]:0; connect s [fd00:10:96::10]:80 -> ok");
    let primary = bound(addresses::v6(addresses::NODE));
    assert_eq!(names(who(&mut caller, 10, &primary)), of_v6);
    let mut of_others = BTreeSet::new();
    for last in 100..120 {
        let address = format!("fd00:198:51:100::{last}");
        let node = host.world.sandbox.node();
        node.configure(&format!("address add {address}/128 dev eth0 nodad\n"))
            .unwrap();
        let of_one = names(who(&mut caller, 3, &bound(address.parse().unwrap())));
        assert_eq!(of_one.len(), 1, "{of_one:?}");
        of_others.extend(of_one);
    }
    assert!(of_others.len() > 1, "{of_others:?}");
}

#[test]
fn an_external_policy_is_none_to_processes_of_the_node() {
    let Some(mut host) = HostWorld::new("host") else {
        return;
    };
    let [a, d] = ["pod-a", "pod-d"].map(|pod| host.world.backend(pod));
    let mut local = with_node_port(service("web", "10.96.0.10", &[d]), 30080);
    local["traffic_policy"] = "Local".into();
    local["external_ips"] = json!(["203.0.113.7"]);
    local["load_balancer_ips"] = json!(["203.0.113.9"]);
    let external = [
        "192.168.16.10:30080",
        "127.0.0.1:30080",
        "203.0.113.7:80",
        "203.0.113.9:80",
    ];
    host.update(&[local.clone()]);
    let mut caller = host.caller();
    let mut everywhere = |times, expected: &[&str]| {
        for address in external {
            for open in ["tcp", "udp"] {
                let open = format!("open s {open}4; connect s {address} -> ok");
                let names = names(who(&mut caller, times, &open));
                assert!(names.iter().eq(expected.iter()), "{open}: {names:?}");
            }
        }
    };
    everywhere(3, &["pod-d"]);
    for protocol in ["tcp", "udp"] {
        let backends = local["backends"][protocol].as_array_mut().unwrap();
        backends.push(json!({ "ip": a.ip(), "port": a.port(), "local": true }));
    }
    host.update(&[local]);
    everywhere(40, &["pod-a", "pod-d"]);
}

#[test]
fn an_internal_policy_holds_for_processes_of_the_node() {
    let Some(mut host) = HostWorld::new("host") else {
        return;
    };
    let backends = ["pod-a", "pod-b", "pod-d"].map(|pod| host.world.backend(pod));
    let mut local: Value = with_node_port(service("web", "10.96.0.10", &backends), 30080);
    local["internal_traffic_policy"] = "Local".into();
    host.update(&[local]);
    let mut caller = host.caller();
    for open in [TCP, UDP] {
        let names = names(who(&mut caller, 40, open));
        assert!(names.iter().eq(["pod-a", "pod-b"]), "{names:?}");
    }
    let node_port = format!("open s tcp4; connect s {}:30080 -> ok", addresses::NODE);
    assert_eq!(names(who(&mut caller, 60, &node_port)).len(), 3);
}

#[test]
fn a_socket_without_a_peer_keeps_its_backend_until_that_leaves() {
    let Some(mut host) = HostWorld::new("host") else {
        return;
    };
    let pods = ["pod-a", "pod-b", "pod-d"];
    let mut backends: Vec<_> = pods.map(|pod| host.world.backend(pod)).to_vec();
    host.update(&[service("web", "10.96.0.10", &backends)]);
    let mut caller = host.caller();
    let mut tcp = host.caller();
    tcp.calls("open t tcp4; connect t 10.96.0.10:80 -> ok; send t text; recv t -> pod-");
    caller.calls("open s udp4");
    let mut last = None;
    while !backends.is_empty() {
        let mut sender_of_many = BTreeSet::new();
        for _ in 0..20 {
            let said =
                caller.calls("sendto s 10.96.0.10:80 text; recvfrom s -> 10.96.0.10:80 pod-");
            sender_of_many.insert(sender(&said));
        }
        assert_eq!(sender_of_many.len(), 1, "{sender_of_many:?}");
        let name = sender_of_many.pop_first().unwrap();
        assert_ne!(last.as_ref(), Some(&name), "it has left");
        let at = host.world.backend(&name);
        backends.retain(|backend| *backend != at);
        last = Some(name);
        host.update(&[service("web", "10.96.0.10", &backends)]);
    }
    caller.calls("sendto s 10.96.0.10:80 text -> ECONNREFUSED");
    // A connection lives on, whatever becomes of its backend.
    tcp.calls("send t text; recv t -> pod-; getpeername t -> 10.96.0.10:80");
}

#[test]
fn a_connected_socket_that_names_its_peer_asks_the_backend_that_it_hears() {
    let Some(mut host) = HostWorld::new("all") else {
        return;
    };
    let backends = ["pod-a", "pod-b", "pod-d"].map(|pod| host.world.backend(pod));
    host.update(&[service("web", "10.96.0.10", &backends)]);
    let pod = host.world.client_pod();
    for mut caller in [host.caller(), Caller::start(&host.cgroup, pod)] {
        caller.calls("open s udp4; connect s 10.96.0.10:80 -> ok");
        let mut names = BTreeSet::new();
        for _ in 0..20 {
            let said =
                caller.calls("sendto s 10.96.0.10:80 text -> ok; recvfrom s -> 10.96.0.10:80 pod-");
            names.insert(sender(&said));
        }
        assert_eq!(names.len(), 1, "{names:?}");
        caller.calls("disconnect s; sendto s 10.96.0.10:80 text; recvfrom s -> 10.96.0.10:80 pod-");
    }
}
