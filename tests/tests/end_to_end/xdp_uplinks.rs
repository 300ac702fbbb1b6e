//! The uplinks that have the XDP program, in the driver or before the stack, and its state from one agent to the next.

use std::{
    process::Command,
    thread,
    time::{Duration, Instant},
};

use nix::net::if_::if_nametoindex;
use shunt_tests::{ForeignXdp, Sandbox, Transport, addresses, run, wait_until};

use crate::{
    pinned,
    service::Service,
    world::{Unattended, World, all_answered_outside, binary, resync, resync_with},
    xdp::{TIMES, flags, status, taken, uplink, world},
};

const SOON: Duration = Duration::from_secs(5);

#[test]
fn another_program_keeps_its_driver_and_tc_does_all() {
    let Some((world, service)) = world("off", Transport::Tcp) else {
        return;
    };
    let unattended = world.stopped();
    let other = unattended.sandbox.node().enter(|| {
        let index = if_nametoindex("eth0").unwrap();
        ForeignXdp::attach(index).unwrap()
    });
    let mut world = unattended.start(&["--xdp=auto", "--xdp-interface=eth0"]);
    world.apply(&resync_with(&[service.json()]));
    let (state, reason) = uplink(&world.agent, "eth0");
    assert_eq!(state, "failed");
    let expected = format!("another XDP program is attached: {} (id ", ForeignXdp::NAME);
    assert!(reason.starts_with(&expected), "{reason}");
    let outside = world.sandbox.outside();
    all_answered_outside(outside, service.node_port(), TIMES);
    assert_eq!(taken(&world.agent), 0);
    drop(other);
    // Whatever changes at an interface has all of them tried again. The kernel detaches the other program a moment later.
    let mut length = 900;
    wait_until("the program is attached", SOON, || {
        length += 1;
        let change = format!("link set eth0 txqueuelen {length}\n");
        world.sandbox.node().configure(&change).unwrap();
        (uplink(&world.agent, "eth0").0 == "native").then_some(())
    })
    .unwrap();
    all_answered_outside(outside, service.node_port(), 3);
}

#[test]
fn a_driver_that_cannot_leaves_it_to_the_kernel_and_the_status_says_so() {
    let Some((world, _)) = world("off", Transport::Tcp) else {
        return;
    };
    let unattended = world.stopped();
    // Longer than the page that a frame has to fit into.
    for end in [unattended.sandbox.node(), unattended.sandbox.outside()] {
        end.configure("link set eth0 mtu 9000\n").unwrap();
    }
    let world = unattended.start(&["--xdp=native", "--xdp-interface=eth0"]);
    let (state, reason) = uplink(&world.agent, "eth0");
    assert_eq!(state, "failed", "{reason}");
    let flags = ["--xdp=auto", "--xdp-interface=eth0"];
    let world = world.stopped().start(&flags);
    let (state, reason) = uplink(&world.agent, "eth0");
    assert_eq!(state, "generic");
    assert!(reason.starts_with("not in the driver: "), "{reason}");
}

#[test]
fn cleanup_leaves_no_driver_with_the_program() {
    let Some((world, _)) = world("native", Transport::Tcp) else {
        return;
    };
    let has_program = |sandbox: &Sandbox| {
        let shown = sandbox.node().query("link show eth0\n").unwrap();
        shown.contains("xdp")
    };
    assert!(has_program(&world.sandbox));
    let Unattended { pins, sandbox } = world.stopped();
    assert!(has_program(&sandbox), "it outlives the agent");
    let path = pins.path().to_str().unwrap();
    let removed = run(binary().to_str().unwrap(), &["cleanup", "--pin-dir", path]).unwrap();
    assert!(
        removed.contains("12 links, 3 programs"),
        "two hooks of five interfaces, and two drivers: {removed}"
    );
    wait_until("the program is detached", SOON, || {
        (!has_program(&sandbox)).then_some(())
    })
    .unwrap();
}

#[test]
fn an_agent_without_xdp_detaches_what_the_one_before_had_attached() {
    let Some((world, service)) = world("native", Transport::Tcp) else {
        return;
    };
    let mut world = world.killed().start(&[]);
    wait_until("the program is detached", SOON, || {
        let shown = world.sandbox.node().query("link show eth0\n").unwrap();
        (!shown.contains("xdp")).then_some(())
    })
    .unwrap();
    world.apply(&resync_with(&[service.json()]));
    all_answered_outside(world.sandbox.outside(), service.node_port(), TIMES);
    let counters = &status(&world.agent)["counters"];
    assert_eq!(counters["drop_rewrite"], 0, "{counters}");
}

#[test]
fn the_next_agent_may_have_the_program_run_elsewhere() {
    let Some((world, service)) = world("generic", Transport::Tcp) else {
        return;
    };
    let unattended = world.killed();
    let flags = flags("native");
    let flags = flags.each_ref().map(String::as_str);
    let mut world = unattended.start(&flags);
    assert_eq!(uplink(&world.agent, "eth0").0, "native");
    world.apply(&resync_with(&[service.json()]));
    all_answered_outside(world.sandbox.outside(), service.node_port(), TIMES);
}

#[test]
fn the_default_uplinks_are_those_of_the_default_routes() {
    let Some(world) = World::with_flags(&["--xdp=auto"]) else {
        return;
    };
    let none = status(&world.agent)["uplinks"].as_array().unwrap().len();
    assert_eq!(none, 0, "there is no default route");
    let outside = addresses::OUTSIDE;
    world
        .sandbox
        .node()
        .configure(&format!("route add default via {outside} dev eth0\n"))
        .unwrap();
    wait_until("the uplink has the program", SOON, || {
        let status = status(&world.agent);
        let uplinks = status["uplinks"].as_array().unwrap();
        (uplinks.len() == 1 && uplinks[0]["state"] == "native").then_some(())
    })
    .unwrap();
}

/// A world whose uplink is `eth0`, by a default route, with the command that adds this.
fn routed(flags: &[&str]) -> Option<(World, String)> {
    let world = World::with_flags(&[&["--xdp=auto"], flags].concat())?;
    let route = format!("default via {} dev eth0", addresses::OUTSIDE);
    let node = world.sandbox.node();
    node.configure(&format!("route add {route}\n")).unwrap();
    await_uplinks(&world, &["eth0"]);
    Some((world, route))
}

/// Waits until these interfaces are the uplinks, with the program in their drivers.
fn await_uplinks(world: &World, names: &[&str]) {
    let wanted: Vec<_> = names.iter().map(|name| (*name, "native")).collect();
    wait_until(&format!("{names:?} are the uplinks"), SOON, || {
        let status = status(&world.agent);
        let uplinks = status["uplinks"].as_array().unwrap().iter();
        let uplinks = uplinks.map(|uplink| (uplink["name"].as_str(), uplink["state"].as_str()));
        let wanted = wanted
            .iter()
            .map(|(name, state)| (Some(*name), Some(*state)));
        uplinks.eq(wanted).then_some(())
    })
    .unwrap();
}

/// The kernel's id of the program's link on an interface.
fn link_id(world: &World, interface: &str) -> u32 {
    let index = world.sandbox.node().enter(|| if_nametoindex(interface));
    let end = format!("-{}-xdp", index.unwrap());
    let links = pinned::links(&world.pins).into_iter();
    let mut links = links.filter(|(name, _)| name.ends_with(&end));
    links.next().unwrap().1.0
}

#[test]
fn an_uplink_whose_default_route_is_away_for_a_moment_keeps_its_program() {
    let Some((world, route)) = routed(&[]) else {
        return;
    };
    let before = link_id(&world, "eth0");
    let node = world.sandbox.node();
    for _ in 0..20 {
        node.configure(&format!("route del {route}\n")).unwrap();
        await_uplinks(&world, &["eth0"]);
        node.configure(&format!("route add {route}\n")).unwrap();
        await_uplinks(&world, &["eth0"]);
    }
    // The route goes with the link, and comes back with what set it.
    node.configure("link set eth0 down\n").unwrap();
    await_uplinks(&world, &["eth0"]);
    node.configure(&format!("link set eth0 up\nroute add {route}\n"))
        .unwrap();
    // What has come before this one has been seen.
    let other = format!("default via {} dev eth1 metric 100", addresses::NODE2);
    node.configure(&format!("route add {other}\n")).unwrap();
    await_uplinks(&world, &["eth0", "eth1"]);
    assert_eq!(link_id(&world, "eth0"), before);
}

#[test]
fn an_uplink_gives_way_to_another_one() {
    let Some((world, route)) = routed(&[]) else {
        return;
    };
    let node = world.sandbox.node();
    let successor = format!("default via {} dev eth1", addresses::NODE2);
    node.configure(&format!("route replace {successor}\n"))
        .unwrap();
    await_uplinks(&world, &["eth1"]);
    node.configure(&format!("route replace {route}\n")).unwrap();
    await_uplinks(&world, &["eth0"]);
}

#[test]
fn the_next_agent_leaves_the_program_on_an_uplink_whose_route_is_away() {
    let Some((world, route)) = routed(&[]) else {
        return;
    };
    let before = link_id(&world, "eth0");
    let unattended = world.killed();
    let node = unattended.sandbox.node();
    node.configure(&format!("route del {route}\n")).unwrap();
    let mut world = unattended.start(&["--xdp=auto"]);
    world.apply(&resync());
    await_uplinks(&world, &["eth0"]);
    let node = world.sandbox.node();
    node.configure(&format!("route add {route}\n")).unwrap();
    await_uplinks(&world, &["eth0"]);
    assert_eq!(link_id(&world, "eth0"), before);
}

/// Prints how long an event takes beside many routes, and while some of them change.
#[test]
#[ignore = "a measurement, for a machine that does nothing else"]
fn an_event_beside_many_routes_that_change() {
    const ROUTES: u32 = 200_000;
    let Some((mut world, _)) = routed(&[]) else {
        return;
    };
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    world.add(&service);
    measure(&mut world, &service, "few routes");
    let via = addresses::OUTSIDE;
    let route = |number: u32| {
        let [_, a, b, c] = number.to_be_bytes();
        format!("route add 2{a}.{b}.{c}.0/24 via {via}\n")
    };
    let routes: String = (0..ROUTES).map(route).collect();
    world.sandbox.node().configure(&routes).unwrap();
    measure(&mut world, &service, "200,000 routes");
    // 20 in a second.
    let changes = format!("while ip route replace 20.0.0.0/24 via {via}; do sleep 0.05; done");
    let node = world.sandbox.node().name().to_owned();
    let mut changing = Command::new("ip")
        .args(["netns", "exec", &node, "sh", "-c", &changes])
        .spawn()
        .unwrap();
    measure(&mut world, &service, "20 changes of them a second");
    changing.kill().unwrap();
    changing.wait().unwrap();
}

fn measure(world: &mut World, service: &Service, what: &str) {
    const EVENTS: usize = 400;
    let other = service.clone().backend(world.backend("pod-b"));
    let events = [other, service.clone()].map(|service| service.event("UpdateService"));
    let mut took: Vec<Duration> = (0..EVENTS)
        .map(|number| {
            thread::sleep(Duration::from_millis(10));
            let start = Instant::now();
            world.apply(&events[number % 2]);
            start.elapsed()
        })
        .collect();
    took.sort();
    let (median, late) = (took[EVENTS / 2], took[EVENTS * 99 / 100]);
    let worst = took[EVENTS - 1];
    println!("{what}: an event takes {median:?}, p99 {late:?}, at most {worst:?}");
}
