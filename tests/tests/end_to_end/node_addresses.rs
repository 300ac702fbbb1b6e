//! Addresses of this node that come and go.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use serde_json::{Value, json};
use shunt_tests::{Ack, Answer, PinDir, Sandbox, Target, Transport, addresses, wait_until};

use crate::{
    service::Service,
    world::{REQUEST, SERVED, Unattended, World, all_answered, resync_with},
};

/// An address that this node gets later, in a network of its own, and the other node's there.
const LATE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 168, 17, 10));
const LATE_NODE2: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 168, 17, 20));

/// Time that the agent may take to see an address.
const SOON: Duration = Duration::from_secs(5);

/// For one connection that may come too early.
const SHORT: Duration = Duration::from_millis(100);

/// The addresses of both families.
fn both(address: IpAddr) -> [IpAddr; 2] {
    [address, addresses::v6(address)]
}

/// Every node address there is or will be, and one service.
fn told(service: &Service, policy: &str) -> String {
    let mut value = service.json();
    value["traffic_policy"] = policy.into();
    let mut event: Value = serde_json::from_str(&resync_with(&[value])).unwrap();
    let all = [addresses::NODE, addresses::NODE2, LATE, LATE_NODE2].map(both);
    event["node_ips"] = json!(all.concat());
    event.to_string()
}

/// `ip` commands that add or delete addresses of a device, with the routes of their networks.
fn change(verb: &str, address: IpAddr, device: &str) -> String {
    let v6 = addresses::v6(address);
    let nodad = if verb == "add" { "nodad" } else { "" };
    format!(
        "address {verb} {address}/24 dev {device}\naddress {verb} {v6}/64 dev {device} {nodad}\n"
    )
}

/// The first answer from outside that `is_right`.
fn soon(world: &World, what: &str, target: Target, is_right: impl Fn(&Answer) -> bool) -> Answer {
    wait_until(what, SOON, || {
        let answer = world
            .sandbox
            .outside()
            .enter(|| target.within(SHORT).ask(REQUEST));
        answer.ok().filter(&is_right)
    })
    .unwrap()
}

#[test]
fn an_address_that_is_added_later_serves_node_ports_and_one_that_is_removed_does_not() {
    for policy in ["Cluster", "Local"] {
        let Some(mut world) = World::new() else {
            return;
        };
        let service = Service::new(Transport::Tcp)
            .dual_stack()
            .backend(world.backend("pod-a"))
            .backend(world.backend_v6("pod-a"));
        world.apply(&told(&service, policy));
        for _ in 0..2 {
            for ip in both(LATE) {
                let target = service.node_port_at(ip).within(SHORT);
                let outcome = world.sandbox.outside().enter(|| target.ask(REQUEST));
                assert!(outcome.is_err(), "{ip} is nobody's, but {outcome:?}");
            }
            world
                .sandbox
                .node()
                .configure(&change("add", LATE, "eth1"))
                .unwrap();
            for ip in both(LATE) {
                let target = service.node_port_at(ip);
                soon(&world, "the new address serves", target, |_| true);
                all_answered(world.sandbox.outside(), target, 20);
            }
            world
                .sandbox
                .node()
                .configure(&change("delete", LATE, "eth1"))
                .unwrap();
            wait_until("the address is given up", SOON, || {
                let status = world.shunt(&["status", "-o", "json"]).json();
                let own = status["own_node_ips"].as_array().unwrap();
                (!both(LATE).iter().any(|ip| own.contains(&json!(ip)))).then_some(())
            })
            .unwrap();
        }
        all_answered(world.sandbox.outside(), service.node_port(), 20);
    }
}

#[test]
fn snat_changes_to_a_valid_address_when_its_own_goes_away() {
    // With the addresses as flags, too: what the host does not have any more, SNAT does not use.
    let flags = [
        [
            "--node-ip",
            "192.168.16.10",
            "--node-ip",
            "fd00:192:168:16::10",
        ],
        [
            "--node-ip",
            "192.168.17.10",
            "--node-ip",
            "fd00:192:168:17::10",
        ],
    ]
    .concat();
    for flags in [&[][..], &flags] {
        let Some(mut world) = World::with_flags(flags) else {
            return;
        };
        let [node, node2] = [world.sandbox.node(), world.sandbox.node2()];
        node2
            .configure("route del default\nroute del ::/0\n")
            .unwrap();
        node.configure(&change("add", LATE, "eth1")).unwrap();
        // Of two the kernel prefers one that is not deprecated.
        let deprecated = format!(
            "address change {}/64 dev eth1 preferred_lft 0\n",
            addresses::v6(LATE)
        );
        node.configure(&deprecated).unwrap();
        node2.configure(&change("add", LATE_NODE2, "eth0")).unwrap();
        let service = Service::new(Transport::Tcp)
            .dual_stack()
            .backend(world.backend("pod-d"))
            .backend(world.backend_v6("pod-d"));
        world.apply(&told(&service, "Cluster"));
        let targets = [service.external_ip(), service.external_ip_v6()];
        for (target, source) in targets.into_iter().zip(both(addresses::NODE)) {
            soon(&world, "the preferred address is used", target, |answer| {
                answer.peer.ip() == source
            });
        }

        let gone = change("delete", addresses::NODE, "eth1");
        let routes = format!(
            "route replace 10.1.2.0/24 via {LATE_NODE2}\nroute replace fd00:10:1:2::/64 via {}\n",
            addresses::v6(LATE_NODE2)
        );
        world
            .sandbox
            .node()
            .configure(&format!("{routes}{gone}"))
            .unwrap();
        for (target, source) in targets.into_iter().zip(both(LATE)) {
            soon(&world, "another address is used", target, |answer| {
                answer.peer.ip() == source
            });
            for _ in 0..20 {
                let answer = world
                    .sandbox
                    .outside()
                    .enter(|| target.ask(REQUEST))
                    .unwrap();
                assert_eq!(answer.peer.ip(), source, "{answer:?}");
            }
        }
    }
}

/// A Resync of these services in which the events know these addresses of nodes.
fn told_at(services: &[Value], nodes: &[IpAddr]) -> String {
    let mut event: Value = serde_json::from_str(&resync_with(services)).unwrap();
    event["node_ips"] = json!(nodes);
    event.to_string()
}

#[test]
fn a_host_that_no_event_names_serves_from_its_own_address_and_says_so() {
    const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    let Some(mut world) = World::new() else {
        return;
    };
    let other = both(addresses::NODE2);
    let routes = other.map(|ip| {
        let all = if ip.is_ipv4() { "default" } else { "::/0" };
        format!("route add {all} via {ip} dev eth1\n")
    });
    world.sandbox.node().configure(&routes.concat()).unwrap();
    let service = Service::new(Transport::Tcp)
        .dual_stack()
        .backend(world.backend("pod-d"))
        .backend(world.backend_v6("pod-d"));
    let complaints = |world: &World| {
        let status = world.shunt(&["status", "-o", "json"]).json();
        let host: Vec<String> = serde_json::from_value(status["host"].clone()).unwrap();
        host.into_iter()
            .filter(|complaint| complaint.contains("names a usable"))
            .collect::<Vec<_>>()
    };
    for nodes in [&[LOOPBACK][..], &[]] {
        world.apply(&told_at(&[service.json()], nodes));
        for (target, ip) in [
            (service.external_ip(), addresses::NODE),
            (service.external_ip_v6(), addresses::v6(addresses::NODE)),
        ] {
            let answer = world.sandbox.outside().enter(|| target.ask(REQUEST));
            assert_eq!(answer.unwrap().peer.ip(), ip, "the way out prefers it");
        }
        for ip in both(addresses::NODE) {
            let target = service.node_port_at(ip).within(SHORT);
            let outcome = world.sandbox.outside().enter(|| target.ask(REQUEST));
            assert!(outcome.is_err(), "NodePorts are at no address: {outcome:?}");
        }
        let found = complaints(&world);
        let [v4, v6] = &*found else {
            panic!("{found:?}")
        };
        assert!(
            v4.contains("usable IPv4") && v4.contains("192.168.16.10"),
            "{v4}"
        );
        assert!(
            v6.contains("usable IPv6") && v6.contains("fd00:192:168:16::10"),
            "{v6}"
        );
        assert!(world.agent.log().contains(v4), "the log has it");
    }
    world.apply(&told_at(
        &[service.json()],
        &[both(addresses::NODE), other].concat(),
    ));
    assert_eq!(complaints(&world), [""; 0]);
    let answer = world
        .sandbox
        .outside()
        .enter(|| service.node_port().ask(REQUEST));
    answer.unwrap();
}

#[test]
fn a_fresh_agent_knows_its_address_before_its_first_frontend() {
    const SERVICES: usize = 20_000;

    let Some(sandbox) = Sandbox::serving(SERVED) else {
        return;
    };
    let pins = PinDir::new();
    let mut world = Unattended { pins, sandbox }.start(&[
        "--max-frontends",
        "65536",
        "--max-backends",
        "65536",
        "--max-slots",
        "131072",
    ]);
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-d"));
    let mut services = vec![service.json()];
    services.extend((0..SERVICES).map(|number| {
        json!({
            "id": { "namespace": "many", "name": format!("s{number}") },
            "cluster_ips": [Ipv4Addr::from_bits(0x0a61_0000 + number as u32)],
            "ports": { "main": { "protocol": "TCP", "port": 80 } },
            "backends": { "main": [{ "ip": "10.1.2.3", "port": SERVED, "local": false }] },
        })
    }));
    let event = resync_with(&services);
    let target = service.external_ip().within(Duration::from_millis(5));
    let is_over = AtomicBool::new(false);
    let asked = thread::scope(|scope| {
        let outside = world.sandbox.outside();
        let asking = scope.spawn(|| {
            let mut asked = 0;
            outside.enter(|| {
                while !is_over.load(Ordering::Relaxed) {
                    drop(target.ask(REQUEST));
                    asked += 1;
                }
            });
            asked
        });
        let acknowledged = world.agent.apply(&event);
        is_over.store(true, Ordering::Relaxed);
        assert!(
            matches!(acknowledged, Ok(Ack::Applied { .. })),
            "{acknowledged:?}"
        );
        asking.join().unwrap()
    });
    let answer = world
        .sandbox
        .outside()
        .enter(|| service.external_ip().ask(REQUEST));
    answer.unwrap();
    let status = world.shunt(&["status", "-o", "json"]).json();
    assert_eq!(status["counters"]["drop_no_node_ip"], 0, "{asked} asked");
}

/// Services of policy Local, whose node ports are at addresses of this node alone.
fn of_policy_local(count: u16) -> String {
    let services = (0..count).map(|number| {
        json!({
            "id": { "namespace": "default", "name": format!("s{number}") },
            "cluster_ips": [format!("10.96.1.{number}")],
            "traffic_policy": "Local",
            "ports": { "main": {
                "protocol": "TCP", "port": 80, "node_port": 30_000 + number,
            } },
            "backends": { "main": [{ "ip": addresses::POD_A, "port": SERVED, "local": true }] },
        })
    });
    let mut event: Value =
        serde_json::from_str(&resync_with(&services.collect::<Vec<_>>())).unwrap();
    event["node_ips"] = json!([addresses::NODE, LATE]);
    event.to_string()
}

#[test]
fn an_address_whose_node_ports_do_not_fit_gets_them_when_there_is_room() {
    let Some(mut world) = World::with_flags(&["--max-frontends", "64"]) else {
        return;
    };
    world.apply(&of_policy_local(30));
    let complaint = |world: &World| {
        let status = world.shunt(&["status", "-o", "json"]).json();
        let host: Vec<String> = serde_json::from_value(status["host"].clone()).unwrap();
        host.into_iter()
            .find(|line| line.contains("NodePorts stay"))
    };
    assert_eq!(complaint(&world), None);
    world
        .sandbox
        .node()
        .configure(&change("add", LATE, "eth1"))
        .unwrap();
    let words = wait_until("the complaint", SOON, || complaint(&world)).unwrap();
    assert!(words.contains("--max-frontends"), "{words}");
    // What was there goes on, and nothing of the new address is there.
    let outside = world.sandbox.outside();
    let at = |ip: IpAddr, port: u16| Target::tcp((ip, port).into()).within(SHORT);
    for port in [30_000, 30_029] {
        outside
            .enter(|| at(addresses::NODE, port).within(SOON).ask(REQUEST))
            .unwrap();
        let early = outside.enter(|| at(LATE, port).ask(REQUEST));
        assert!(early.is_err(), "{early:?}");
    }
    world.apply(&of_policy_local(10));
    soon(&world, "room", at(LATE, 30_009), |_| true);
    assert_eq!(complaint(&world), None);
}
