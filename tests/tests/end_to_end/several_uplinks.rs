//! Clients behind several uplinks (ECMP, as with BGP at the host): their packets come in by any of them, and the node's
//! route to them has as many next hops.
//!
//! ```text
//!   outside eth0 ---- eth0 node eth1 ---- node2, with the backend
//!           eth1 ---- eth2
//! ```

use std::{net::IpAddr, time::Duration};

use serde_json::json;
use shunt_tests::{Target, Transport, addresses, by_length, wait_until};

use crate::{
    dual_stack::{service, world_with_flags},
    redirect::forwarded,
    router::{come, counted, wait_for_filter},
    world::{REQUEST, World},
};

/// The node's address at its second uplink, and that of the router there.
const SECOND: &str = "172.20.0.1";
const ROUTER: &str = "172.20.0.2";

/// The node's address at its first uplink.
const FIRST: &str = "198.51.100.1";

/// The client's address, which no link has.
const CLIENT: &str = "203.0.113.200";

/// Time that the agent may take to see a setting.
const SOON: Duration = Duration::from_secs(5);

/// A world with a second uplink whose client's packets come in by both. These pods' interfaces have the programs too.
fn world_with_two_uplinks(flags: &[&str], pods: &[&str]) -> Option<World> {
    let mut world = world_with_flags(flags)?;
    let (node, outside) = (world.sandbox.node(), world.sandbox.outside());
    node.configure(&format!(
        "link add eth2 type veth peer name eth1 netns {}\n\
         address add {SECOND}/24 dev eth2\n\
         link set eth2 up\n\
         route add {CLIENT}/32 nexthop via {} dev eth0 nexthop via {ROUTER} dev eth2\n",
        outside.name(),
        addresses::OUTSIDE,
    ))
    .unwrap();
    let hops = format!("nexthop via {FIRST} dev eth0 nexthop via {SECOND} dev eth1");
    outside
        .configure(&format!(
            "address add {ROUTER}/24 dev eth1\n\
             address add {CLIENT}/32 dev eth0\n\
             link set eth1 up\n\
             route replace {}/32 src {CLIENT} {hops}\n",
            addresses::NODE,
        ))
        .unwrap();
    // By ports, so that a client's flows take both uplinks.
    outside
        .set("net/ipv4/fib_multipath_hash_policy", "1")
        .unwrap();
    // As a router at each uplink does it, so that the node learns the link address of either: an ARP request names the
    // interface's own address, not the client's.
    outside.set("net/ipv4/conf/all/arp_announce", "2").unwrap();
    outside.set("net/ipv4/conf/all/rp_filter", "0").unwrap();
    for interface in ["eth0", "eth1"] {
        let setting = format!("net/ipv4/conf/{interface}/rp_filter");
        outside.set(&setting, "0").unwrap();
    }
    filter(&world, "0");
    let frontend = [&["eth0", "eth1", "eth2"], pods].concat();
    for (event, names) in [
        ("UpdateLocalFrontendIfs", &frontend[..]),
        ("UpdateLocalBackendIfs", pods),
    ] {
        world.apply(&json!({ "event": event, "new": names }).to_string());
    }
    world.wait_for_interfaces(&frontend);
    Some(world)
}

/// Sets `rp_filter` of both uplinks of the node.
fn filter(world: &World, mode: &str) {
    let node = world.sandbox.node();
    node.set("net/ipv4/conf/all/rp_filter", "0").unwrap();
    for interface in ["eth0", "eth2"] {
        node.set(&format!("net/ipv4/conf/{interface}/rp_filter"), mode)
            .unwrap();
    }
}

/// Has the client open so many flows, all of which are answered. Returns the number of packets that took the stack.
#[track_caller]
fn through_stack(world: &World, target: Target, flows: u32) -> u64 {
    let before = counted(world, "through_stack");
    let outside = world.sandbox.outside();
    let tally = outside.enter(|| target.ask_times(flows, REQUEST));
    assert!(tally.failures.is_empty(), "{target:?}: {tally:#?}");
    counted(world, "through_stack") - before
}

#[test]
fn flows_by_any_of_several_uplinks_pass_the_stack_by_where_that_judges_no_source() {
    let Some(mut world) = world_with_two_uplinks(&[], &[]) else {
        return;
    };
    let service = service(&world, Transport::Udp, &["pod-d"]);
    world.add(&service);
    let target = service.node_port();
    for mode in ["0", "2"] {
        filter(&world, mode);
        // The neighbours are known then, and the setting.
        wait_until("no packet takes the stack", SOON, || {
            (through_stack(&world, target, 20) == 0).then_some(())
        })
        .unwrap();
        let flows = by_length(2_000, 20_000);
        let through = through_stack(&world, target, flows);
        assert_eq!(through, 0, "rp_filter {mode}");
    }
    // Linux accepts each next hop of the route, the programs know one. The stack's verdict holds for all flows of the
    // client for a second.
    filter(&world, "1");
    wait_until("some packet takes the stack", SOON, || {
        (through_stack(&world, target, 200) > 0).then_some(())
    })
    .unwrap();
    let flows = 2_000;
    let through = through_stack(&world, target, flows);
    assert!(through < u64::from(flows) / 4, "{through} of {flows}");
}

#[test]
fn with_strict_filters_no_packet_comes_in_that_linux_drops() {
    let Some(mut world) = world_with_two_uplinks(&[], &[]) else {
        return;
    };
    let service = service(&world, Transport::Udp, &["pod-d"]);
    world.add(&service);
    let (node, outside) = (world.sandbox.node(), world.sandbox.outside());
    // All packets come in by the first uplink.
    outside
        .configure(&format!(
            "route replace {}/32 via {FIRST} dev eth0\n\
             route replace {} via {FIRST} dev eth0\n",
            addresses::NODE,
            addresses::POD_D,
        ))
        .unwrap();
    let first = format!("via {} dev eth0", addresses::OUTSIDE);
    let second = format!("via {ROUTER} dev eth2");
    // Behind the second uplink by a more specific route, and by the better one of two default routes.
    node.configure(&format!(
        "route add 203.0.113.128/25 {first}\n\
         route add 203.0.113.192/28 {second}\n\
         route add default {first} metric 20\n\
         route add default {second} metric 10\n"
    ))
    .unwrap();
    // Through the service, and the control: to the backend itself, as the kernel forwards it.
    let direct = Target::udp(world.backend("pod-d"));
    for (mode, passes) in [("1", 0), ("2", 3), ("0", 3), ("1", 0)] {
        filter(&world, mode);
        for source in ["203.0.113.201", "192.0.2.7"] {
            let source: IpAddr = source.parse().unwrap();
            assert_eq!(come(&world, direct, source), passes, "rp_filter {mode}");
            wait_for_filter(passes, || come(&world, service.node_port(), source));
            for _ in 0..10 {
                let came = come(&world, service.node_port(), source);
                assert_eq!(came, passes, "rp_filter {mode}, from {source}");
            }
        }
    }
}

#[test]
fn packets_by_any_of_several_uplinks_are_redirected_where_the_stack_judges_no_source() {
    let Some(mut world) = world_with_two_uplinks(&["--redirect"], &["pod-a"]) else {
        return;
    };
    let service = service(&world, Transport::Udp, &["pod-a"]);
    world.add(&service);
    let target = service.node_port();
    let forwarded_of = |world: &World, flows: u32| {
        let before = forwarded(world.sandbox.node());
        let tally = world
            .sandbox
            .outside()
            .enter(|| target.ask_times(flows, REQUEST));
        assert!(tally.failures.is_empty(), "{tally:#?}");
        forwarded(world.sandbox.node()) - before
    };
    for mode in ["0", "2"] {
        filter(&world, mode);
        wait_until("no packet takes the stack", SOON, || {
            (forwarded_of(&world, 20) == 0).then_some(())
        })
        .unwrap();
        let forwarded = forwarded_of(&world, 500);
        assert!(forwarded <= 20, "rp_filter {mode}: {forwarded} of 500");
    }
}
