//! Interfaces that come and go.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use aya::programs::loaded_programs;
use nix::net::if_::if_nametoindex;
use serde_json::{Value, json};
use shunt_tests::{Continuous, Namespace, Target, Transport, wait_until};

use crate::{
    pinned,
    service::Service,
    tun::Tun,
    world::{REQUEST, World, all_answered, resync_with},
};

const POD_E: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 1, 1, 6));

/// Time that the agent may take to see an interface.
const SOON: Duration = Duration::from_secs(5);

/// For one connection that may come too early.
const SHORT: Duration = Duration::from_millis(100);

pub(crate) fn frontend_interfaces(names: &[&str]) -> String {
    json!({ "event": "UpdateLocalFrontendIfs", "old": [], "new": names }).to_string()
}

/// Returns an interface of `shunt status`.
pub(crate) fn shown(world: &World, name: &str) -> Option<Value> {
    let status = world.shunt(&["status", "-o", "json"]).json();
    let interfaces = status["interfaces"].as_array().unwrap().clone();
    let mut interfaces = interfaces.into_iter();
    interfaces.find(|interface| interface["name"] == name)
}

/// Waits for the first connection that is answered; from then on all must be.
fn soon_translated(from: &Namespace, target: Target) {
    wait_until("a new interface is attached", SOON, || {
        from.enter(|| target.within(SHORT).ask(REQUEST)).ok()
    })
    .unwrap();
    all_answered(from, target, 50);
}

#[test]
fn an_interface_that_appears_later_is_attached() {
    let Some(mut world) = World::new() else {
        return;
    };
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    world.add(&service);
    let traffic = Continuous::start(world.client_pod(), service.cluster_ip(), REQUEST);

    world.apply(&frontend_interfaces(&[
        "eth0", "eth1", "pod-a", "pod-b", "pod-c", "pod-e",
    ]));
    for _ in 0..3 {
        world.sandbox.add_pod("pod-e", POD_E).unwrap();
        soon_translated(world.sandbox.pod("pod-e").namespace(), service.cluster_ip());
        world.sandbox.remove_pod("pod-e").unwrap();
    }
    for sample in traffic.stop().unwrap() {
        let outcome = &sample.outcome;
        assert!(
            outcome.is_ok(),
            "other interfaces must not be disturbed, but {outcome:?}"
        );
    }
}

#[test]
fn an_interface_that_is_no_longer_named_is_detached() {
    let Some(mut world) = World::new() else {
        return;
    };
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    world.add(&service);
    world.ask_from_pod(service.cluster_ip(), 5);

    world.apply(&frontend_interfaces(&["eth0", "eth1", "pod-a", "pod-b"]));
    let outcome = world
        .client_pod()
        .enter(|| service.cluster_ip().within(SHORT).ask(REQUEST));
    assert!(
        outcome.is_err(),
        "pod-c is no frontend interface any more, but {outcome:?}"
    );
    all_answered(world.sandbox.outside(), service.external_ip(), 20);

    world.apply(&frontend_interfaces(&[
        "eth0", "eth1", "pod-a", "pod-b", "pod-c",
    ]));
    world.ask_from_pod(service.cluster_ip(), 20);
}

/// The programs on an interface of the node, by hook; none if it has no pinned links.
fn programs_on(world: &World, name: &str) -> BTreeMap<String, String> {
    let index = world
        .sandbox
        .node()
        .enter(|| if_nametoindex(name))
        .unwrap_or(0);
    let links = pinned::links(&world.pins).into_iter();
    links
        .filter_map(|(link, (_, program))| {
            let mut parts = link.splitn(3, '-').skip(1);
            let of_this = parts.next()? == index.to_string();
            let hook = parts.next()?.to_owned();
            let info = loaded_programs().flatten();
            let mut info = info.filter(|info| info.id() == program);
            let name = info.next()?.name_as_str()?.to_owned();
            of_this.then_some((hook, name))
        })
        .collect()
}

#[test]
fn an_interface_has_the_programs_for_what_its_packets_begin_with() {
    let Some(mut world) = World::new() else {
        return;
    };
    // Without a service, an agent that ends would leave nothing pinned.
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    world.add(&service);
    world.apply(&frontend_interfaces(&["eth0", "changing"]));
    let kinds = [
        ("link add changing type veth peer name other\n", ""),
        ("tuntap add dev changing mode tun\n", "_l3"),
        ("tuntap add dev changing mode tap\n", ""),
    ];
    for (add, ending) in kinds {
        world.sandbox.node().configure(add).unwrap();
        let expected: BTreeMap<_, _> = ["egress", "ingress"]
            .map(|hook| (hook.to_owned(), format!("tc_{hook}{ending}")))
            .into();
        let attached = |world: &World| {
            wait_until("the interface is attached", SOON, || {
                let programs = programs_on(world, "changing");
                (programs.len() == 2).then_some(programs)
            })
            .unwrap()
        };
        assert_eq!(attached(&world), expected, "after {add}");

        // The next agent attaches the right program to each link, too.
        world = world.stopped().start(&[]);
        assert_eq!(attached(&world), expected, "after {add} and a restart");
        world.apply(&resync_with(&[service.json()]));
        world.apply(&frontend_interfaces(&["eth0", "changing"]));
        world
            .sandbox
            .node()
            .configure("link delete changing\n")
            .unwrap();
    }
}

#[test]
fn an_interface_of_another_link_type_is_left_alone_and_shown_with_the_reason() {
    const IEEE802154: libc::c_ulong = 804;
    let Some(mut world) = World::new() else {
        return;
    };
    let node = world.sandbox.node();
    let tun = Tun::new(node, "radio");
    tun.claim(IEEE802154);
    world.apply(&frontend_interfaces(&["eth0", "radio"]));
    let radio = |world: &World| shown(world, "radio");
    let shown = radio(&world).unwrap();
    assert_eq!(shown["state"], "failed", "{shown}");
    let reason = shown["reason"].as_str().unwrap();
    assert!(reason.contains("link type 804"), "{reason}");
    assert_eq!(programs_on(&world, "radio"), BTreeMap::new());

    // One of that name that can have the programs gets them.
    drop(tun);
    let node = world.sandbox.node();
    let _tun = Tun::new(node, "radio");
    wait_until("the new interface is attached", SOON, || {
        (radio(&world)?["state"] == "attached").then_some(())
    })
    .unwrap();
    let hooks = ["egress", "ingress"].map(|hook| (hook.to_owned(), format!("tc_{hook}_l3")));
    assert_eq!(programs_on(&world, "radio"), hooks.into());
}

/// Returns whether the kernel has TCX, which needs no qdisc: since Linux 6.6.
pub(crate) fn has_tcx() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split('.').map(|part| part.parse().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(6), Some(6))
}

#[test]
fn programs_that_others_remove_with_the_qdisc_or_the_filters_are_attached_again() {
    let Some(mut world) = World::new() else {
        return;
    };
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    world.add(&service);
    world.ask_from_pod(service.cluster_ip(), 3);
    let tc = |arguments: &[&str]| {
        let node = world.sandbox.node();
        node.run_with_input("tc", arguments, "").unwrap();
    };
    let before = links(&world);
    if has_tcx() {
        tc(&["qdisc", "add", "dev", "pod-c", "clsact"]);
    }
    for (removes, programs) in [
        (&["qdisc", "del", "dev", "pod-c", "clsact"][..], 2),
        (&["filter", "del", "dev", "pod-c", "ingress"], 1),
        (&["filter", "del", "dev", "pod-c", "egress"], 1),
    ] {
        const AGAIN: &str = "another program has removed the filter: attached again";
        let said = || world.agent.log().matches(AGAIN).count();
        let said_before = said();
        if has_tcx() && removes[0] == "filter" {
            continue;
        }
        tc(removes);
        if !has_tcx() {
            wait_until("the programs are attached again", SOON, || {
                (said() == said_before + programs).then_some(())
            })
            .unwrap();
        }
        soon_translated(world.client_pod(), service.cluster_ip());
    }
    assert_eq!(links(&world), before);
}

/// The names of what is pinned for hooks.
fn links(world: &World) -> Vec<String> {
    pinned::links(&world.pins).into_keys().collect()
}

#[test]
fn an_interface_with_an_ingress_qdisc_has_both_programs_or_says_why_it_has_none() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.sandbox.add_pod("pod-e", POD_E).unwrap();
    let tc = |world: &World, command: &str| {
        let arguments: Vec<_> = ["qdisc", command, "dev", "pod-e", "ingress"].into();
        let node = world.sandbox.node();
        node.run_with_input("tc", &arguments, "").unwrap();
    };
    tc(&world, "add");
    world.apply(&frontend_interfaces(&["eth0", "pod-c", "pod-e"]));
    let pod = |world: &World| shown(world, "pod-e");
    let is_attached = |world: &World| (pod(world)?["state"] == "attached").then_some(());
    if !has_tcx() {
        let shown = wait_until("it is tried", SOON, || {
            pod(&world).filter(|shown| shown["state"] == "failed")
        })
        .unwrap();
        let reason = shown["reason"].as_str().unwrap();
        assert!(reason.contains("qdisc `ingress`"), "{reason}");
        assert_eq!(programs_on(&world, "pod-e"), BTreeMap::new());
        tc(&world, "del");
        // It is tried again when the interface changes.
        let node = world.sandbox.node();
        node.configure("link set pod-e down\nlink set pod-e up\n")
            .unwrap();
    }
    wait_until("it is attached", SOON, || is_attached(&world)).unwrap();
    assert_eq!(programs_on(&world, "pod-e").len(), 2);
}
