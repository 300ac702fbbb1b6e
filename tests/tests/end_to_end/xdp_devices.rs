//! Uplinks of other kinds than a network card: devices on top of another one, and those without Ethernet.

use std::time::Duration;

use serde_json::Value;
use shunt_tests::{Ability, Device, Namespace, Sandbox, Transport, kernel_has, run, wait_until};

use crate::{
    service::Service,
    tun::Tun,
    world::{World, all_answered_outside, resync_with},
    xdp::{TIMES, as_from_a_wire, taken, uplink, world},
};

/// Time in which the agent has to follow a change.
const SOON: Duration = Duration::from_secs(5);

/// Address of this node by its other uplink, and the clients' address there.
const NODE_BY_OTHER: &str = "198.51.105.1";
const OUTSIDE_BY_OTHER: &str = "198.51.105.50";

/// Has clients come by another uplink, which is called so at this node and outside.
pub(crate) fn go_by_other(sandbox: &Sandbox, [here, there]: [&str; 2]) {
    let node = format!("address add {NODE_BY_OTHER}/24 dev {here}\nlink set {here} up\n");
    sandbox.node().configure(&node).unwrap();
    let outside = format!(
        "address add {OUTSIDE_BY_OTHER}/24 dev {there}\n\
         link set {there} up\n\
         route replace 203.0.113.7 via {NODE_BY_OTHER} src {OUTSIDE_BY_OTHER}\n"
    );
    sandbox.outside().configure(&outside).unwrap();
}

/// The first event, with TC's programs on the other uplink too.
pub(crate) fn resync_with_other(service: &Service, here: &str) -> String {
    let mut event: Value = serde_json::from_str(&resync_with(&[service.json()])).unwrap();
    let interfaces = event["frontend_ifs"].as_array_mut().unwrap();
    interfaces.push(here.into());
    event.to_string()
}

/// Serves clients who come by another uplink, which `devices` make at this node and outside, and whose backend
/// is behind `eth1`; the kernel runs the program in these modes there, by `--xdp`. Returns how many packets got
/// no further than the drivers. Skips the test if the kernel lacks what it `needs`.
fn served(
    needs: &[Ability],
    devices: impl Fn(&Sandbox),
    [here, there]: [&str; 2],
    (mode, by_other, by_eth1): (&str, &str, &str),
) -> Option<u64> {
    if !kernel_has(needs) {
        return None;
    }
    let (world, service) = world("off", Transport::Tcp)?;
    let unattended = world.stopped();
    devices(&unattended.sandbox);
    go_by_other(&unattended.sandbox, [here, there]);
    let [mode, other] = [format!("--xdp={mode}"), format!("--xdp-interface={here}")];
    let mut world: World = unattended.start(&[&mode, "--xdp-interface=eth1", &other]);
    world.apply(&resync_with_other(&service, here));
    assert_eq!(uplink(&world.agent, "eth1").0, by_eth1);
    let (state, reason) = uplink(&world.agent, here);
    assert_eq!(state, by_other, "{reason}");
    let is_fallback = mode == "--xdp=auto" && by_other == "generic";
    assert_eq!(reason.starts_with("not in the driver: "), is_fallback);
    let outside = world.sandbox.outside();
    all_answered_outside(outside, service.external_ip(), TIMES);
    Some(taken(&world.agent))
}

/// Serves the same clients by TC alone.
pub(crate) fn served_by_tc(
    needs: &[Ability],
    devices: impl Fn(&Sandbox),
    [here, there]: [&str; 2],
) {
    if !kernel_has(needs) {
        return;
    }
    let Some((world, service)) = world("off", Transport::Tcp) else {
        return;
    };
    let unattended = world.stopped();
    devices(&unattended.sandbox);
    go_by_other(&unattended.sandbox, [here, there]);
    let mut world: World = unattended.start(&["--xdp=off"]);
    world.apply(&resync_with_other(&service, here));
    let outside = world.sandbox.outside();
    all_answered_outside(outside, service.external_ip(), TIMES);
}

/// Devices on top of `eth0` cannot run the program in a driver. What a driver hands to one is lost: so beside
/// one that can, TC does all of theirs.
fn without_a_driver(device: Device, devices: impl Fn(&Sandbox), names: [&str; 2]) {
    let needs = [Ability::Device(device)];
    let beside_native = ("auto", "generic", "native");
    if let Some(taken) = served(&needs, &devices, names, beside_native) {
        assert_eq!(taken, 0, "packets that a driver would hand there are lost");
    }
    if let Some(taken) = served(&needs, &devices, names, ("generic", "generic", "generic")) {
        assert!(taken >= u64::from(4 * TIMES), "{taken}");
    }
}

/// Adds to both ends of `eth0` a device for VLAN 5.
pub(crate) fn add_vlan(sandbox: &Sandbox) {
    let vlan = "link add link eth0 name eth0.5 type vlan id 5\n";
    for end in [sandbox.node(), sandbox.outside()] {
        end.configure(vlan).unwrap();
    }
}

#[test]
fn clients_behind_a_vlan_device_are_served_without_a_driver() {
    without_a_driver(Device::Vlan, add_vlan, ["eth0.5", "eth0.5"]);
}

/// Switches a feature of an interface by ethtool(8).
fn switch(end: &Namespace, interface: &str, feature: [&str; 2]) {
    let command = ["netns", "exec", end.name(), "ethtool", "-K", interface];
    run("ip", &[&command[..], &feature].concat()).unwrap();
}

/// Waits until the status shows this for `eth0`. Returns the reason.
fn await_state(world: &World, state: &str) -> String {
    let what = format!("eth0 is {state}");
    let reason = || {
        let (now, reason) = uplink(&world.agent, "eth0");
        (now == state).then_some(reason)
    };
    wait_until(&what, SOON, reason).unwrap()
}

#[test]
fn an_uplink_that_takes_the_tags_of_a_vlan_off_leaves_all_to_tc() {
    if !kernel_has(&[Ability::Device(Device::Vlan)]) {
        return;
    }
    let Some((world, service)) = world("off", Transport::Tcp) else {
        return;
    };
    let flags = ["--xdp=auto", "--xdp-interface=eth0", "--xdp-interface=eth1"];
    let mut world: World = world.stopped().start(&flags);
    world.apply(&resync_with(&[service.json()]));
    await_state(&world, "native");
    add_vlan(&world.sandbox);
    let node = world.sandbox.node();
    let reason = await_state(&world, "failed");
    let named = ["frames of eth0.5 come", "`ethtool -K eth0 rxvlan off`"];
    assert!(named.iter().all(|part| reason.contains(part)), "{reason}");
    assert!(world.agent.log().contains("no XDP program: TC does all"));

    // The VLAN's frames are not the uplink's: no program of ours is at the device.
    go_by_other(&world.sandbox, ["eth0.5", "eth0.5"]);
    let before = taken(&world.agent);
    let asked = |world: &World| {
        let target = service.external_ip().within(SOON / 10);
        world.sandbox.outside().enter(|| target.connect().is_ok())
    };
    assert!(!asked(&world), "eth0.5 is not among the interfaces");
    let programs = node.query("link show eth0\n").unwrap();
    assert!(!programs.contains("prog/xdp"), "{programs}");

    // With tags in frames, the program passes them.
    switch(world.sandbox.outside(), "eth0", ["txvlan", "off"]);
    switch(node, "eth0", ["rxvlan", "off"]);
    await_state(&world, "native");
    assert!(!asked(&world), "eth0.5 is not among the interfaces");
    assert_eq!(taken(&world.agent), before);
    switch(node, "eth0", ["rxvlan", "on"]);
    await_state(&world, "failed");
    node.configure("link delete eth0.5\n").unwrap();
    await_state(&world, "native");
}

#[test]
fn clients_behind_a_macvlan_device_are_served_without_a_driver() {
    let macvlan = "link add link eth0 name mac0 type macvlan mode bridge\n";
    without_a_driver(
        Device::Macvlan,
        |sandbox| sandbox.node().configure(macvlan).unwrap(),
        ["mac0", "eth0"],
    );
}

#[test]
fn a_bond_has_the_program_in_the_drivers_of_its_ports() {
    let bond = |sandbox: &Sandbox| {
        let (node, outside) = (sandbox.node(), sandbox.outside());
        let bond = "link add bond0 type bond mode active-backup miimon 100\n";
        for end in [node, outside] {
            end.configure(bond).unwrap();
        }
        for port in ["port0", "port1"] {
            let pair = format!(
                "link add {port} type veth peer name {port} netns {}\n",
                outside.name()
            );
            node.configure(&pair).unwrap();
            for end in [node, outside] {
                let enslave = format!("link set {port} master bond0\nlink set {port} up\n");
                end.configure(&enslave).unwrap();
            }
            as_from_a_wire(outside, port);
        }
    };
    let needs = [Ability::Device(Device::Bond)];
    served(
        &needs,
        bond,
        ["bond0", "bond0"],
        ("auto", "native", "native"),
    );
}

#[test]
fn an_interface_without_ethernet_has_no_program_and_tc_does_all() {
    let Some((world, service)) = world("off", Transport::Udp) else {
        return;
    };
    let unattended = world.stopped();
    let tun = Tun::new(unattended.sandbox.node(), "tun0");
    let mut world = unattended.start(&["--xdp=auto", "--xdp-interface=tun0"]);
    world.apply(&resync_with(&[service.json()]));
    let (state, reason) = uplink(&world.agent, "tun0");
    assert_eq!(
        (&*state, &*reason),
        ("failed", "it has no Ethernet address")
    );
    let tally = all_answered_outside(world.sandbox.outside(), service.node_port(), TIMES);
    assert_eq!(tally.of(world.backend("pod-d")), u64::from(TIMES));
    assert_eq!(taken(&world.agent), 0);
    drop(tun);
}
