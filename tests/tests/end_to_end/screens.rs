//! With `--redirect`, other programs and queueing disciplines on the devices of pods handle the packets that they
//! handle without it.

use std::time::Duration;

use nix::net::if_::if_nametoindex;
use serde_json::json;
use shunt_tests::{ForeignTc, Target, TcxHook, Transport, wait_until};

use crate::{
    dual_stack::{Family, service, world_with_flags},
    interfaces::has_tcx,
    world::{REQUEST, World},
};

/// Time until the agent has seen what sends no message, and room.
const SEEN: Duration = Duration::from_secs(25);

/// Patience of a client whose packets may be dropped.
const BRIEF: Duration = Duration::from_millis(300);

/// Flags of the agent: the control is without redirection.
const FLAGS: [&[&str]; 2] = [&[], &["--redirect"]];

const PODS: [&str; 3] = ["pod-a", "pod-c", "pod-b"];

/// A world with the programs at pods' devices, and a service of both families with a pod of this node.
fn world(flags: &[&str]) -> Option<(World, [Target; 2])> {
    let mut world = world_with_flags(flags)?;
    for event in ["UpdateLocalFrontendIfs", "UpdateLocalBackendIfs"] {
        world.apply(&json!({ "event": event, "new": PODS }).to_string());
    }
    let service = service(&world, Transport::Tcp, &["pod-a"]);
    world.add(&service);
    let targets = Family::BOTH.map(|family| family.target(service.cluster_ip()));
    for target in targets {
        world.ask_from_pod(target, 20);
    }
    Some((world, targets))
}

/// Waits until all of the pod's connections fail, or all succeed.
#[track_caller]
fn wait_for(world: &World, targets: [Target; 2], succeeds: bool, what: &str) {
    for target in targets.map(|target| target.within(BRIEF)) {
        wait_until(what, SEEN, || {
            let asked = world.client_pod().enter(|| target.ask(REQUEST));
            (asked.is_ok() == succeeds).then_some(())
        })
        .unwrap();
        // Not only the first one.
        for _ in 0..3 {
            let asked = world.client_pod().enter(|| target.ask(REQUEST));
            assert_eq!(asked.is_ok(), succeeds, "{what}: {asked:?}");
        }
    }
}

fn attach(world: &World, interface: &str, hook: TcxHook) -> ForeignTc {
    world.sandbox.node().enter(|| {
        let index = if_nametoindex(interface).unwrap();
        ForeignTc::attach(index, hook).unwrap()
    })
}

/// The complaints of the status about the host.
fn complaints(world: &World) -> Vec<String> {
    let status = world.shunt(&["status", "-o", "json"]).json();
    serde_json::from_value(status["host"].clone()).unwrap()
}

#[test]
fn a_dropping_program_on_a_pods_device_drops_with_redirection_as_without() {
    if !has_tcx() {
        return;
    }
    for flags in FLAGS {
        let Some((world, targets)) = world(flags) else {
            return;
        };
        // The kernel reports an attachment only where something else changes the device.
        for (interface, hook, name, is_reported) in [
            ("pod-a", TcxHook::Egress, "TCX egress", false),
            ("pod-a", TcxHook::Ingress, "TCX ingress", true),
            ("pod-c", TcxHook::Ingress, "TCX ingress", true),
        ] {
            let report = |change: &str| {
                let command = format!("link set dev {interface} alias {change}\n");
                if is_reported {
                    world.sandbox.node().configure(&command).unwrap();
                }
            };
            let policy = attach(&world, interface, hook);
            report("attached");
            let what = format!("{flags:?}: dropped at {interface}'s {name}");
            wait_for(&world, targets, false, &what);
            let expected = format!("{interface} (a program at its hook {name})");
            let complaints = complaints(&world);
            let is_reported = complaints.iter().any(|text| text.ends_with(&expected));
            assert_eq!(is_reported, !flags.is_empty(), "{complaints:?}");

            drop(policy);
            report("free");
            let what = format!("{flags:?}: {interface} is free again");
            wait_for(&world, targets, true, &what);
        }
        wait_until("no complaint is left", SEEN, || {
            complaints(&world).is_empty().then_some(())
        })
        .unwrap();
    }
}

#[test]
fn a_filter_and_a_queueing_discipline_on_a_pods_device_see_what_they_see_without_redirection() {
    let drops: &[&[&str]] = &[
        &["qdisc", "add", "dev", "pod-a", "clsact"],
        // Into the loopback device, where the packets are nobody's.
        &[
            "filter", "add", "dev", "pod-a", "egress", "pref", "100", "protocol", "ip", "u32",
            "match", "u32", "0", "0", "action", "mirred", "egress", "redirect", "dev", "lo",
        ],
        &[
            "filter", "add", "dev", "pod-a", "egress", "pref", "101", "protocol", "ipv6", "u32",
            "match", "u32", "0", "0", "action", "mirred", "egress", "redirect", "dev", "lo",
        ],
    ];
    for flags in FLAGS {
        let Some((world, targets)) = world(flags) else {
            return;
        };
        let tc = |arguments: &[&str]| {
            let node = world.sandbox.node();
            node.run_with_input("tc", arguments, "").unwrap();
        };
        for command in drops {
            if command[0] == "qdisc" && !has_tcx() {
                continue;
            }
            tc(command);
        }
        wait_for(
            &world,
            targets,
            false,
            &format!("{flags:?}: the filter drops"),
        );
        for pref in ["100", "101"] {
            tc(&["filter", "del", "dev", "pod-a", "egress", "pref", pref]);
        }
        wait_for(
            &world,
            targets,
            true,
            &format!("{flags:?}: the filter is gone"),
        );

        // A bucket that holds no packet of a request.
        tc(&[
            "qdisc", "add", "dev", "pod-a", "root", "tbf", "rate", "8bit", "burst", "10", "limit",
            "10",
        ]);
        wait_for(
            &world,
            targets,
            false,
            &format!("{flags:?}: the limit holds"),
        );
        tc(&["qdisc", "del", "dev", "pod-a", "root"]);
        wait_for(
            &world,
            targets,
            true,
            &format!("{flags:?}: the limit is gone"),
        );
    }
}

#[test]
fn a_program_that_is_on_a_pods_device_before_its_name_is_known_sees_the_first_packet() {
    if !has_tcx() {
        return;
    }
    let Some(mut world) = world_with_flags(&["--redirect"]) else {
        return;
    };
    let policy = attach(&world, "pod-a", TcxHook::Egress);
    for event in ["UpdateLocalFrontendIfs", "UpdateLocalBackendIfs"] {
        world.apply(&json!({ "event": event, "new": PODS }).to_string());
    }
    let service = service(&world, Transport::Tcp, &["pod-a"]);
    world.add(&service);
    for family in Family::BOTH {
        let target = family.target(service.cluster_ip()).within(BRIEF);
        for _ in 0..3 {
            world
                .client_pod()
                .enter(|| target.ask(REQUEST))
                .unwrap_err();
        }
    }
    drop(policy);
}
