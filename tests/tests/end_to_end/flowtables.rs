//! Flowtables of nftables, which forward established connections without the stack. Not every kernel has them.

use std::time::Duration;

use shunt_tests::{Ability, Device, Sandbox, Transport, has_program, kernel_has, wait_until};

use crate::{
    path_mtu::transfer,
    service::Service,
    world::{World, all_answered_outside, resync_with},
    xdp_devices::{add_vlan, go_by_other, resync_with_other},
};

/// Time in which the agent looks again once an interface has the programs.
const SOON: Duration = Duration::from_secs(15);

/// Beginning of the line of the status, up to the flowtables.
const BEGINNING: &str = "nftables may forward established connections past Shunt's programs, so \
                         that replies leave with the address of their backend: ";

/// Adds a flowtable of these devices.
fn add_flowtable(sandbox: &Sandbox, devices: &[&str]) {
    let rules = format!(
        "table inet shortcut {{\n\
         flowtable fast {{ hook ingress priority 0; devices = {{ {} }}; }}\n\
         chain forward {{\n\
         type filter hook forward priority 0; policy accept;\n\
         ct state established meta l4proto tcp flow add @fast\n\
         }}\n\
         }}\n",
        devices.join(", ")
    );
    let node = sandbox.node();
    node.run_with_input("nft", &["-f", "-"], &rules).unwrap();
}

/// A device at both ends by its name, with the abilities that it needs and the function that adds it there.
type Added = (&'static str, &'static [Ability], fn(&Sandbox));

const VLAN: Added = ("eth0.5", &[Ability::Device(Device::Vlan)], add_vlan);
const BRIDGE: Added = ("br0", &[], add_bridge);

/// A service of a pod of this node, whose clients come by `device` at both ends if there is one, with a flowtable.
fn world_with(device: Option<Added>, flowtable: &[&str]) -> Option<(World, Service)> {
    let mut needs = vec![Ability::Flowtables];
    needs.extend(device.iter().flat_map(|(_, abilities, _)| *abilities));
    if !has_program("nft") || !kernel_has(&needs) {
        return None;
    }
    let world = World::new()?;
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    let unattended = world.stopped();
    let sandbox = &unattended.sandbox;
    if let Some((name, _, add)) = device {
        add(sandbox);
        go_by_other(sandbox, [name, name]);
    }
    add_flowtable(sandbox, flowtable);
    let resync = match device {
        Some((name, _, _)) => resync_with_other(&service, name),
        None => resync_with(&[service.json()]),
    };
    let mut world = unattended.start(&["--xdp=off"]);
    world.apply(&resync);
    Some((world, service))
}

/// Returns the flowtables that the status names.
fn named(world: &World) -> Option<String> {
    let status = world.shunt(&["status", "-o", "json"]).json();
    let mut lines = status["host"].as_array()?.iter();
    let line = lines.find_map(|line| line.as_str()?.strip_prefix(BEGINNING))?;
    let (named, _) = line.split_once(". Name ")?;
    Some(named.to_owned())
}

/// Adds a bridge at both ends, with a port towards the other one.
fn add_bridge(sandbox: &Sandbox) {
    let (node, outside) = (sandbox.node(), sandbox.outside());
    let bridge = "link add br0 type bridge\n";
    let port = "link set port0 master br0\nlink set port0 up\n";
    let peer = outside.name();
    let ports = format!("link add port0 type veth peer name port0 netns {peer}\n{port}");
    node.configure(bridge).unwrap();
    outside.configure(bridge).unwrap();
    node.configure(&ports).unwrap();
    outside.configure(port).unwrap();
}

/// A flowtable of an interface below `device` is named in the status.
fn is_named(device: Added, below: &str) {
    let Some((world, _)) = world_with(Some(device), &[below, "pod-a"]) else {
        return;
    };
    let (above, _, _) = device;
    let expected = format!("flowtable fast of inet shortcut has {below}, below {above}");
    wait_until("the status names the flowtable", SOON, || {
        (named(&world)? == expected).then_some(())
    })
    .unwrap();
}

#[test]
fn a_flowtable_below_a_vlan_is_named() {
    is_named(VLAN, "eth0");
}

#[test]
fn a_flowtable_below_a_bridge_is_named() {
    is_named(BRIDGE, "port0");
}

/// Clients behind `device` are answered by the frontend while `flowtable` forwards the replies.
fn has_the_frontends_address(device: Option<Added>, flowtable: &[&str]) {
    let Some((world, service)) = world_with(device, flowtable) else {
        return;
    };
    let outside = world.sandbox.outside();
    all_answered_outside(outside, service.external_ip(), 20);
    transfer(outside, service.external_ip(), 16 << 20);
    assert_eq!(named(&world), None);
}

#[test]
fn replies_that_a_flowtable_forwards_have_the_frontends_address() {
    has_the_frontends_address(None, &["eth0", "pod-a"]);
}

#[test]
fn replies_that_a_flowtable_forwards_by_a_vlan_have_the_frontends_address() {
    has_the_frontends_address(Some(VLAN), &["eth0.5", "pod-a"]);
}

#[test]
fn replies_that_a_flowtable_forwards_by_a_bridge_have_the_frontends_address() {
    has_the_frontends_address(Some(BRIDGE), &["br0", "pod-a"]);
}
