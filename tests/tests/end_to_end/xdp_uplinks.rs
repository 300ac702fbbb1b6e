//! Which uplinks have the XDP program, in the driver or before the stack, and what becomes of it from
//! one agent to the next.

use std::time::Duration;

use nix::net::if_::if_nametoindex;
use shunt_tests::{ForeignXdp, Sandbox, Transport, addresses, run, wait_until};

use crate::{
    world::{Unattended, World, all_answered_outside, binary, resync_with},
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
    // Whatever changes at an interface has all of them tried again.
    world
        .sandbox
        .node()
        .configure("link set eth0 txqueuelen 999\n")
        .unwrap();
    wait_until("the program is attached", SOON, || {
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
