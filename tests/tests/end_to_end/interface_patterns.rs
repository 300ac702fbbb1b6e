//! Interfaces that are meant by patterns.

use std::{
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use serde_json::{Value, json};
use shunt_tests::{Transport, wait_until};

use crate::{
    service::Service,
    world::{REQUEST, World, all_answered, all_answered_outside},
};

const POD_E: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 1, 1, 6));

/// Time that the agent may take to see an interface.
const SOON: Duration = Duration::from_secs(5);

/// For a connection that is not translated.
const SHORT: Duration = Duration::from_millis(100);

fn frontend_interfaces(names: &[&str]) -> String {
    json!({ "event": "UpdateLocalFrontendIfs", "new": names }).to_string()
}

/// Each interface of `shunt status`: its name, what it was chosen by, and its state.
fn shown(world: &World) -> Vec<(String, String, String)> {
    let status = world.shunt(&["status", "-o", "json"]).json();
    let text = |value: &Value| value.as_str().unwrap_or("name").to_owned();
    let interfaces = status["interfaces"].as_array().unwrap().iter();
    interfaces
        .map(|interface| {
            let field = |name: &str| text(&interface[name]);
            (field("name"), field("pattern"), field("state"))
        })
        .collect()
}

fn wait_for(world: &World, expected: &[(&str, &str, &str)]) {
    let expected: Vec<_> = expected
        .iter()
        .map(|(name, pattern, state)| {
            (
                (*name).to_owned(),
                (*pattern).to_owned(),
                (*state).to_owned(),
            )
        })
        .collect();
    let found = wait_until("the status shows it", SOON, || {
        (shown(world) == expected).then_some(())
    });
    assert!(found.is_ok(), "{:#?} and not {expected:#?}", shown(world));
}

#[test]
fn an_interface_that_a_pattern_of_an_event_means_is_attached_when_it_appears() {
    let Some(mut world) = World::new() else {
        return;
    };
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    world.add(&service);
    world.apply(&frontend_interfaces(&["pod-*", "eth0", "wg?"]));
    wait_for(
        &world,
        &[
            ("eth0", "name", "attached"),
            ("pod-a", "pod-*", "attached"),
            ("pod-b", "pod-*", "attached"),
            ("pod-c", "pod-*", "attached"),
            ("wg?", "wg?", "absent"),
        ],
    );
    world.ask_from_pod(service.cluster_ip(), 20);
    for _ in 0..2 {
        world.sandbox.add_pod("pod-e", POD_E).unwrap();
        let pod = world.sandbox.pod("pod-e").namespace();
        wait_until("the new pod's interface is attached", SOON, || {
            pod.enter(|| service.cluster_ip().within(SHORT).ask(REQUEST))
                .ok()
        })
        .unwrap();
        all_answered(pod, service.cluster_ip(), 20);
        world.sandbox.remove_pod("pod-e").unwrap();
        wait_until("the pod's interface is forgotten", SOON, || {
            let shown = shown(&world);
            shown.iter().all(|(name, ..)| name != "pod-e").then_some(())
        })
        .unwrap();
    }
    let table = world.shunt(&["status"]).clean();
    let line = table.lines().find(|line| line.starts_with("pod-c"));
    let words: Vec<_> = line.unwrap().split_whitespace().collect();
    assert_eq!(words[..3], ["pod-c", "pod-*", "attached"], "{table}");
}

#[test]
fn auto_takes_all_but_the_loopback_interface_and_what_is_excluded() {
    let flags = [
        "--interface",
        "auto",
        "--exclude-interface",
        "pod-[ab]",
        "--exclude-interface",
        "spare",
    ];
    let Some(mut world) = World::with_flags(&flags) else {
        return;
    };
    let service = Service::new(Transport::Tcp)
        .backend(world.backend("pod-a"))
        .backend(world.backend("pod-d"));
    world.add(&service);
    // Also what an event names is left alone if it is excluded.
    world.apply(&frontend_interfaces(&["pod-a", "spare", "eth1"]));
    wait_for(
        &world,
        &[
            ("eth0", "auto", "attached"),
            ("eth1", "name", "attached"),
            ("pod-c", "auto", "attached"),
        ],
    );
    world.ask_from_pod(service.cluster_ip(), 20);
    all_answered_outside(world.sandbox.outside(), service.external_ip(), 20);
    let from_excluded = world
        .sandbox
        .pod("pod-b")
        .namespace()
        .enter(|| service.cluster_ip().within(SHORT).ask(REQUEST));
    assert!(from_excluded.is_err(), "{from_excluded:?}");
}
