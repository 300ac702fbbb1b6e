//! Replies of a pod whose own traffic leaves by another uplink (`ip rule from POD`), as cloud networks with several
//! interfaces a node have it: AWS VPC CNI with secondary ENIs, Azure, GKE with several NICs.
//!
//! ```text
//!   outside eth0 ---- eth0 node
//!           eth1 ---- eth2      by rule for the pods
//! ```

use std::time::Duration;

use serde_json::json;
use shunt_tests::{Namespace, Sandbox, Target, Transport, addresses, wait_until};

use crate::{
    dual_stack::{Family, service, world_with_flags},
    path_mtu::transfer,
    service::Service,
    world::{REQUEST, SERVED, World, all_answered, all_answered_outside},
    xdp,
};

/// The node's address at its second uplink, and that of the router there.
const SECOND: &str = "172.20.0.1";
const ROUTER: &str = "172.20.0.2";

/// The way of the pods' own traffic.
const TABLE: &str = "2";

/// Time that the agent may take to see a rule.
const SOON: Duration = Duration::from_secs(5);

/// Time to wait for what is not answered.
const SHORT: Duration = Duration::from_millis(300);

const TRANSPORTS: [Transport; 2] = [Transport::Tcp, Transport::Udp];

/// Number of connections to make.
const SOME: u32 = 50;

/// Brings up the second uplink. Its router takes nothing.
fn second_uplink(sandbox: &Sandbox) {
    let (node, outside) = (sandbox.node(), sandbox.outside());
    let [own, router] = [SECOND, ROUTER].map(|ip| addresses::v6(ip.parse().unwrap()));
    node.configure(&format!(
        "link add eth2 type veth peer name eth1 netns {}\n\
         address add {SECOND}/24 dev eth2\n\
         address add {own}/64 dev eth2 nodad\n\
         link set eth2 up\n\
         route add default via {ROUTER} table {TABLE}\n",
        outside.name()
    ))
    .unwrap();
    outside
        .configure(&format!(
            "address add {ROUTER}/24 dev eth1\n\
             address add {router}/64 dev eth1 nodad\n\
             link set eth1 up\n"
        ))
        .unwrap();
    node.configure(&format!("route add ::/0 via {router} table {TABLE}\n"))
        .unwrap();
    let rules = "table inet router {\n\
                 chain in {\n\
                 type filter hook prerouting priority -300\n\
                 iifname eth1 meta l4proto { tcp, udp } drop\n\
                 }\n\
                 }\n";
    outside.run_with_input("nft", &["-f", "-"], rules).unwrap();
    // A packet for a pod comes in where the pod's own would not go out.
    node.set("net/ipv4/conf/all/rp_filter", "2").unwrap();
}

/// Adds or deletes the rules for a pod's own packets.
fn rules(node: &Namespace, what: &str, pod: &str) {
    let pod = pod.parse().unwrap();
    for family in Family::BOTH {
        let rule = format!("from {} lookup {TABLE} pref 1536", family.of(pod));
        change_rule(node, family, what, &rule);
    }
}

/// Adds or deletes a rule of a family.
fn change_rule(node: &Namespace, family: Family, what: &str, rule: &str) {
    let family = match family {
        Family::V4 => "-4",
        Family::V6 => "-6",
    };
    let words = [family, "rule", what].into_iter().chain(rule.split(' '));
    let words: Vec<&str> = words.collect();
    node.run_with_input("ip", &words, "").unwrap();
}

const POD: &str = "10.1.1.3";

/// A world whose programs are at these interfaces, and whose pods' own packets leave by the second uplink.
fn world(flags: &[&str], of_pods: &[&str]) -> Option<World> {
    let mut world = world_with_flags(flags)?;
    second_uplink(&world.sandbox);
    let uplinks = ["eth0", "eth1", "eth2"];
    for (event, names) in [
        ("UpdateLocalFrontendIfs", &uplinks[..]),
        ("UpdateLocalBackendIfs", of_pods),
    ] {
        world.apply(&json!({ "event": event, "new": names }).to_string());
    }
    world.wait_for_interfaces(&uplinks);
    rules(world.sandbox.node(), "add", POD);
    Some(world)
}

fn rerouted(world: &World) -> u64 {
    let status = world.shunt(&["status", "-o", "json"]).json();
    status["counters"]["rerouted"].as_u64().unwrap()
}

/// Waits until a connection from outside is answered.
#[track_caller]
fn wait_for_answer(world: &World, target: Target) {
    wait_until("a connection is answered", SOON, || {
        let outside = world.sandbox.outside();
        outside.enter(|| target.within(SHORT).ask(REQUEST)).ok()
    })
    .unwrap();
}

/// All clients outside are answered, in both families and by both transports.
fn serves_outside(world: &mut World) {
    for transport in TRANSPORTS {
        let service = service(world, transport, &["pod-a"]);
        world.update(&service);
        for target in [service.node_port(), service.external_ip()] {
            for family in Family::BOTH {
                let target = family.target(target);
                wait_for_answer(world, target);
                all_answered_outside(world.sandbox.outside(), target, SOME);
            }
        }
        if transport == Transport::Tcp {
            transfer(world.sandbox.outside(), service.node_port(), 16 << 20);
        }
    }
}

#[test]
fn kube_proxys_rules_answer_with_the_mark_of_what_came_for_the_node() {
    let Some(sandbox) = Sandbox::serving(SERVED) else {
        return;
    };
    second_uplink(&sandbox);
    let node = sandbox.node();
    rules(node, "add", POD);
    let pod = addresses::v6(POD.parse().unwrap());
    for family in Family::BOTH {
        change_rule(
            node,
            family,
            "add",
            "fwmark 0x80/0x80 lookup main pref 1024",
        );
    }
    let target = Service::new(Transport::Tcp).node_port();
    let port = target.address().port();
    let dnat = format!(
        "table inet proxy {{\n\
         chain nat {{\n\
         type nat hook prerouting priority -100\n\
         fib daddr type local meta nfproto ipv4 meta l4proto tcp th dport {port} dnat ip to {POD}:{SERVED}\n\
         fib daddr type local meta nfproto ipv6 meta l4proto tcp th dport {port} dnat ip6 to [{pod}]:{SERVED}\n\
         }}\n\
         }}\n"
    );
    node.run_with_input("nft", &["-f", "-"], &dnat).unwrap();
    let outside = sandbox.outside();
    for family in Family::BOTH {
        let target = family.target(target).within(SHORT);
        outside.enter(|| target.ask(REQUEST)).unwrap_err();
    }
    let marks = "table inet aws {\n\
                 chain marks {\n\
                 type filter hook prerouting priority -150\n\
                 iifname eth0 fib daddr type local ct mark set ct mark | 0x80\n\
                 iifname \"pod-*\" meta mark set ct mark & 0x80\n\
                 }\n\
                 }\n";
    node.run_with_input("nft", &["-f", "-"], marks).unwrap();
    for family in Family::BOTH {
        all_answered(outside, family.target(target), SOME);
    }
}

#[test]
fn replies_leave_by_the_way_of_their_frontend() {
    for (flags, of_pods) in [
        (&[][..], &[][..]),
        (&[], &["pod-a"]),
        (&["--redirect"], &[]),
    ] {
        let Some(mut world) = world(flags, of_pods) else {
            return;
        };
        serves_outside(&mut world);
        assert_ne!(rerouted(&world), 0, "{flags:?}");
    }
}

#[test]
fn with_redirect_at_the_pods_replies_take_the_same_way() {
    let Some(mut world) = world(&["--redirect"], &["pod-a"]) else {
        return;
    };
    serves_outside(&mut world);
}

#[test]
fn replies_leave_by_the_way_of_their_frontend_with_xdp_at_the_uplinks() {
    if !xdp::has_ethtool() {
        return;
    }
    let flags = xdp::flags("native");
    let Some(mut world) = world(&flags.each_ref().map(String::as_str), &[]) else {
        return;
    };
    xdp::as_from_a_wire(world.sandbox.outside(), "eth0");
    serves_outside(&mut world);
    assert_ne!(rerouted(&world), 0);
}

#[test]
fn replies_leave_by_the_route_to_the_client_wherever_that_came_in() {
    let Some(mut world) = world(&[], &[]) else {
        return;
    };
    let [node, own] = [addresses::NODE, SECOND.parse().unwrap()];
    let [node_v6, own_v6] = [node, own].map(addresses::v6);
    let outside = world.sandbox.outside();
    // Its packets may come by the second uplink; to it, all go by the first.
    outside
        .configure(&format!(
            "route add {node}/32 via {own} dev eth1 src {}\n\
             route add {node_v6}/128 via {own_v6} dev eth1 src {}\n",
            addresses::OUTSIDE,
            addresses::v6(addresses::OUTSIDE)
        ))
        .unwrap();
    outside.set("net/ipv4/conf/all/rp_filter", "2").unwrap();
    for transport in TRANSPORTS {
        let service = service(&world, transport, &["pod-a"]);
        world.update(&service);
        for family in Family::BOTH {
            let target = family.target(service.node_port());
            wait_for_answer(&world, target);
            all_answered(world.sandbox.outside(), target, SOME);
        }
    }
    assert_ne!(rerouted(&world), 0);
}

#[test]
fn a_pod_learns_of_the_mtu_of_the_way_that_its_replies_take() {
    let Some(mut world) = world(&[], &[]) else {
        return;
    };
    let node = world.sandbox.node();
    let outside = addresses::OUTSIDE;
    let outside_v6 = addresses::v6(outside);
    node.configure(&format!(
        "route add {outside}/32 dev eth0 mtu lock 1200\n\
         route add {outside_v6}/128 dev eth0 mtu lock 1300\n"
    ))
    .unwrap();
    let service = service(&world, Transport::Tcp, &["pod-a"]);
    world.add(&service);
    for family in Family::BOTH {
        let target = family.target(service.node_port());
        wait_for_answer(&world, target);
        transfer(world.sandbox.outside(), target, 4 << 20);
        let pod = world.sandbox.pod("pod-a").namespace();
        let (client, mtu) = match family {
            Family::V4 => (outside, "mtu 1200"),
            Family::V6 => (outside_v6, "mtu 1300"),
        };
        let learnt = pod.query(&format!("route get {client}\n")).unwrap();
        assert!(learnt.contains(mtu), "{learnt}");
    }
}

#[test]
fn without_rules_for_senders_no_reply_is_looked_up_again() {
    let Some(mut world) = world(&[], &[]) else {
        return;
    };
    let service = service(&world, Transport::Udp, &["pod-a"]);
    world.add(&service);
    let target = service.node_port();
    wait_for_answer(&world, target);
    rules(world.sandbox.node(), "del", POD);
    let outside = world.sandbox.outside();
    all_answered_outside(outside, target, SOME);
    let before = rerouted(&world);
    all_answered_outside(outside, target, SOME);
    assert_eq!(rerouted(&world), before);
    // A rule about destinations alone changes nothing.
    let rule = format!("rule add to {POD} lookup main pref 512\n");
    world.sandbox.node().configure(&rule).unwrap();
    all_answered_outside(outside, target, SOME);
    assert_eq!(rerouted(&world), before);
}

#[test]
fn pods_whose_routes_are_in_a_table_of_their_own_answer_each_other() {
    let Some(mut world) = world_with_flags(&[]) else {
        return;
    };
    let node = world.sandbox.node();
    // The default route leads outside; those to pods hold for pods alone.
    node.configure(&format!(
        "route add default via {}\n\
         route add 10.1.1.5/32 dev pod-c table 7\n\
         route del 10.1.1.5/32 dev pod-c\n\
         rule add from 10.1.1.0/24 lookup 7 pref 1536\n",
        addresses::OUTSIDE
    ))
    .unwrap();
    node.set("net/ipv4/conf/all/rp_filter", "0").unwrap();
    node.set("net/ipv4/conf/pod-c/rp_filter", "0").unwrap();
    for transport in TRANSPORTS {
        let service = service(&world, transport, &["pod-a"]);
        world.update(&service);
        for target in [service.cluster_ip(), service.node_port()] {
            world.ask_from_pod(target, SOME);
        }
    }
    assert_eq!(rerouted(&world), 0);
}

#[test]
fn a_trace_follows_a_reply_to_its_way() {
    let Some(mut world) = world(&[], &[]) else {
        return;
    };
    let service = service(&world, Transport::Tcp, &["pod-a"]);
    world.add(&service);
    for family in Family::BOTH {
        let target = family.target(service.node_port());
        wait_for_answer(&world, target);
        let target = target.from_port(41_234);
        let connection = world.sandbox.outside().enter(|| target.connect().unwrap());
        let client = family.of(addresses::OUTSIDE);
        let (from, to) = match family {
            Family::V4 => (format!("{POD}:{SERVED}"), format!("{client}:41234")),
            Family::V6 => {
                let pod = addresses::v6(POD.parse().unwrap());
                (format!("[{pod}]:{SERVED}"), format!("[{client}]:41234"))
            }
        };
        let traced = world.shunt(&[
            "trace",
            "-o",
            "json",
            "--from",
            &from,
            "--to",
            &to,
            "--flags",
            "ack",
            "--interface",
            "pod-a",
        ]);
        let traced = traced.json();
        assert_eq!(traced["end"], "leaves", "{traced:#}");
        let steps = traced["steps"].as_array().unwrap();
        let hooks: Vec<_> = steps
            .iter()
            .filter(|step| step["step"] == "hook")
            .map(|step| (step["hook"].as_str().unwrap(), &step["interface"]))
            .collect();
        assert_eq!(
            hooks,
            [("egress", &json!("eth2")), ("egress", &json!("eth0"))],
            "{traced:#}"
        );
        assert!(
            steps
                .iter()
                .any(|step| step["step"] == "counter" && step["name"] == "rerouted"),
            "{traced:#}"
        );
        drop(connection);
    }
}
