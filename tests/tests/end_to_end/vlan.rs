//! Packets that came by a VLAN: their tag is off, and before Linux 6.2 the kernel leaves its number standing.

use shunt_tests::{Ability, Device, Sandbox, Transport, kernel_has};

use crate::{
    dual_stack::{Family, service, world_with_flags},
    world::all_answered,
    xdp_devices::{add_vlan, served_by_tc},
};

/// The nodes' addresses in VLAN 5.
const NODE: &str = "192.168.17.10";
const NODE2: &str = "192.168.17.20";

#[test]
fn clients_behind_a_vlan_device_are_served_by_tc() {
    let needs = [Ability::Device(Device::Vlan)];
    served_by_tc(&needs, add_vlan, ["eth0.5", "eth0.5"]);
}

/// A bridge takes the tag off what goes up to its own interface.
#[test]
fn clients_behind_a_bridge_of_a_vlan_are_served() {
    let bridge = |sandbox: &Sandbox| {
        let (node, outside) = (sandbox.node(), sandbox.outside());
        let bridge = format!(
            "link add br0 type bridge vlan_filtering 1 vlan_default_pvid 5\n\
             link add port0 type veth peer name port0 netns {}\n\
             link set port0 master br0\n\
             link set port0 up\n",
            outside.name()
        );
        node.configure(&bridge).unwrap();
    };
    let needs = [Ability::Device(Device::FilteringBridge)];
    served_by_tc(&needs, bridge, ["br0", "port0"]);
}

#[test]
fn a_pod_has_replies_of_a_backend_behind_a_vlan_device() {
    if !kernel_has(&[Ability::Device(Device::Vlan)]) {
        return;
    }
    let Some(mut world) = world_with_flags(&["--xdp=off"]) else {
        return;
    };
    let (node, node2) = (world.sandbox.node(), world.sandbox.node2());
    for (end, device, own, other, pods) in [
        (
            node,
            "eth1",
            NODE,
            NODE2,
            ["10.1.2.0/24", "fd00:10:1:2::/64"],
        ),
        (
            node2,
            "eth0",
            NODE2,
            NODE,
            ["10.1.1.0/24", "fd00:10:1:1::/64"],
        ),
    ] {
        let mut commands = format!(
            "link add link {device} name {device}.5 type vlan id 5\n\
             link set {device}.5 up\n"
        );
        for (family, pods) in Family::BOTH.into_iter().zip(pods) {
            let [own, other] = [own, other].map(|ip| family.of(ip.parse().unwrap()));
            let (length, nodad) = match family {
                Family::V4 => (24, ""),
                Family::V6 => (64, " nodad"),
            };
            commands += &format!(
                "address add {own}/{length} dev {device}.5{nodad}\n\
                 route replace {pods} via {other} dev {device}.5\n"
            );
        }
        end.configure(&commands).unwrap();
    }
    for transport in [Transport::Tcp, Transport::Udp] {
        let service = service(&world, transport, &["pod-d"]);
        world.update(&service);
        for family in Family::BOTH {
            let target = family.target(service.cluster_ip());
            all_answered(world.client_pod(), target, 20);
        }
    }
}
