//! Pods whose addresses are not known beforehand: kube-proxy's modes detect them. And
//! `--masquerade-all`.

use std::{collections::BTreeSet, net::IpAddr};

use shunt_tests::{Transport, addresses};

use crate::{
    cni::{names, serves_everybody, service, world},
    cni_world::{bridged_pods, routed_pod},
};

const HAIRPIN: &str = "169.254.254.1";

/// Two addresses that have no range in common with anything.
const ADDRESSES: [&str; 2] = ["172.30.9.4", "100.64.7.3"];

#[test]
fn pods_of_no_common_range_are_told_by_their_interfaces_names() {
    for further in [&[][..], &["--redirect"]] {
        let flags = [
            &[
                "--interface",
                "auto",
                "--detect-local-mode",
                "InterfaceNamePrefix",
                "--pod-interface-name-prefix",
                "cali",
            ],
            further,
        ]
        .concat();
        let Some(mut world) = world(&flags) else {
            return;
        };
        let server = routed_pod(&world, "cali1", ADDRESSES[0]);
        let client = routed_pod(&world, "cali2", ADDRESSES[1]);
        world.wait_for_interfaces(&["cali1", "cali2"]);
        serves_everybody(&mut world, &server, &client, ["cali1", "cali2", "pod-d"]);
    }
}

#[test]
fn pods_behind_a_bridge_are_told_by_the_bridge() {
    let flags = [
        "--interface",
        "auto",
        "--detect-local-mode",
        "BridgeInterface",
        "--pod-bridge-interface",
        "cni0",
    ];
    let Some(mut world) = world(&flags) else {
        return;
    };
    let [server, client] = bridged_pods(&world, &["port-a", "port-b"]);
    serves_everybody(&mut world, &server, &client, ["pod-d", "port-a", "port-b"]);
}

#[test]
fn a_range_of_the_cluster_tells_who_keeps_its_source_to_a_cluster_ip() {
    let flags = ["--interface", "auto", "--cluster-cidr", "100.64.0.0/10"];
    let Some(mut world) = world(&flags) else {
        return;
    };
    let server = routed_pod(&world, "cali1", ADDRESSES[0]);
    let client = routed_pod(&world, "cali2", ADDRESSES[1]);
    world.wait_for_interfaces(&["cali1", "cali2"]);
    for transport in [Transport::Tcp, Transport::Udp] {
        let service = service(&world, transport, &[&server]);
        world.add(&service);
        let both: BTreeSet<&str> = ["cali1", "pod-d"].into();
        let seen = client.ask(service.cluster_ip(), 40);
        assert_eq!(names(&seen), both);
        assert!(
            seen.iter().all(|(_, peer)| *peer == client.address),
            "{seen:?}"
        );
        // At other addresses a pod of any node may ask.
        for target in [service.external_ip(), service.node_port()] {
            let seen = client.ask(target, 40);
            assert_eq!(names(&seen), both);
            for (name, peer) in seen {
                let expected = match name.as_str() {
                    "pod-d" => addresses::NODE,
                    _ => client.address,
                };
                assert_eq!(peer, expected, "{name}");
            }
        }
        world.apply(&crate::service::Service::delete());
    }
}

#[test]
fn with_masquerade_all_backends_see_this_node_at_a_cluster_ip() {
    let flags = [
        "--interface",
        "auto",
        "--masquerade-all",
        "--pod-cidr",
        "10.1.4.0/24",
    ];
    let Some(mut world) = world(&flags) else {
        return;
    };
    let server = routed_pod(&world, "cali1", "10.1.4.3");
    let client = routed_pod(&world, "cali2", "10.1.4.4");
    world.wait_for_interfaces(&["cali1", "cali2"]);
    let hairpin: IpAddr = HAIRPIN.parse().unwrap();
    for transport in [Transport::Tcp, Transport::Udp] {
        let service = service(&world, transport, &[&server, &client]);
        world.add(&service);
        // At other addresses a client keeps its own where the replies come back by themselves.
        for (target, others_see) in [
            (service.cluster_ip(), addresses::NODE),
            (service.external_ip(), client.address),
        ] {
            let seen = client.ask(target, 60);
            assert_eq!(names(&seen), ["cali1", "cali2", "pod-d"].into());
            for (name, peer) in seen {
                let is_itself = name == "cali2";
                let expected = if is_itself { hairpin } else { others_see };
                assert_eq!(peer, expected, "{name} at {target:?}");
            }
        }
        world.apply(&crate::service::Service::delete());
    }
}
