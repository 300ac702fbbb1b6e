//! Flowtables of nftables, which forward established connections without the stack. Not every kernel has them.

use std::time::Duration;

use shunt_tests::{Sandbox, Transport, wait_until};

use crate::{
    path_mtu::transfer,
    service::Service,
    world::{World, all_answered_outside, resync_with},
    xdp_devices::{go_by_other, has_devices, has_vlan, resync_with_other},
};

/// Time in which the agent looks again once an interface has the programs.
const SOON: Duration = Duration::from_secs(15);

/// Beginning of the line of the status, up to the flowtables.
const BEGINNING: &str = "nftables may forward established connections past Shunt's programs, so \
                         that replies leave with the address of their backend: ";

/// Adds a flowtable of these devices; prints a message if the kernel has none.
fn has_flowtable(sandbox: &Sandbox, devices: &[&str]) -> bool {
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
    let added = sandbox.node().run_with_input("nft", &["-f", "-"], &rules);
    if let Err(error) = &added {
        eprintln!("skipped: the kernel has no flowtables: {error:#}");
    }
    added.is_ok()
}

/// A device at both ends by its name, with how it is added there; returns false if the kernel has no such device.
type Added = (&'static str, fn(&Sandbox) -> bool);

/// A service of a pod of this node, whose clients come by `device` at both ends if there is one, with a flowtable.
fn world_with(device: Option<Added>, flowtable: &[&str]) -> Option<(World, Service)> {
    let world = World::new()?;
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    let unattended = world.stopped();
    let sandbox = &unattended.sandbox;
    if let Some((name, add)) = device {
        if !add(sandbox) {
            return None;
        }
        go_by_other(sandbox, [name, name]);
    }
    if !has_flowtable(sandbox, flowtable) {
        return None;
    }
    let resync = match device {
        Some((name, _)) => resync_with_other(&service, name),
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

/// A port of a bridge at each end, with the clients behind the bridges.
fn has_bridge(sandbox: &Sandbox) -> bool {
    let (node, outside) = (sandbox.node(), sandbox.outside());
    let bridge = "link add br0 type bridge\n";
    let link = format!(
        "link add port0 type veth peer name port0 netns {}\n\
         link set port0 master br0\n\
         link set port0 up\n",
        outside.name()
    );
    has_devices(node, bridge)
        && has_devices(outside, bridge)
        && has_devices(node, &link)
        && has_devices(outside, "link set port0 master br0\nlink set port0 up\n")
}

#[test]
fn a_flowtable_below_a_vlan_or_a_bridge_is_named() {
    let vlan: Added = ("eth0.5", has_vlan);
    let bridge: Added = ("br0", has_bridge);
    for (device, below) in [(vlan, "eth0"), (bridge, "port0")] {
        let Some((world, _)) = world_with(Some(device), &[below, "pod-a"]) else {
            return;
        };
        let expected = format!(
            "flowtable fast of inet shortcut has {below}, below {}",
            device.0
        );
        wait_until("the status names the flowtable", SOON, || {
            (named(&world)? == expected).then_some(())
        })
        .unwrap();
    }
}

#[test]
fn replies_that_a_flowtable_forwards_by_our_own_interfaces_have_the_frontends_address() {
    let vlan: Added = ("eth0.5", has_vlan);
    let bridge: Added = ("br0", has_bridge);
    for (device, flowtable) in [
        (None, ["eth0", "pod-a"]),
        (Some(vlan), ["eth0.5", "pod-a"]),
        (Some(bridge), ["br0", "pod-a"]),
    ] {
        let Some((world, service)) = world_with(device, &flowtable) else {
            return;
        };
        let outside = world.sandbox.outside();
        all_answered_outside(outside, service.external_ip(), 20);
        transfer(outside, service.external_ip(), 16 << 20);
        assert_eq!(named(&world), None, "{flowtable:?}");
    }
}
