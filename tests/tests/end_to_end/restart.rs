//! Agents that end, and agents that take over.

use std::{fs, time::Duration};

use aya::maps::{Array, Map};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use shunt_tests::{Agent, Continuous, PinDir, Sandbox, Transport, has_root};

use crate::{
    pinned::{self, Tables},
    service::Service,
    world::{REQUEST, World, all_answered, binary, resync, resync_with, try_start_agent_with},
};

const SOON: Duration = Duration::from_secs(10);

/// Damage of another process to the tables, and its name.
type Damage<'a> = (&'static str, &'a dyn Fn(&mut Tables));

#[test]
fn no_packet_is_lost_while_agents_are_killed_and_take_over() {
    let Some(mut world) = World::new() else {
        return;
    };
    let [a, b] = ["pod-a", "pod-b"].map(|pod| world.backend(pod));
    let service = Service::new(Transport::Tcp).backend(a).backend(b);
    world.add(&service);
    let mut open = world
        .client_pod()
        .enter(|| service.cluster_ip().connect().unwrap());
    open.echo(REQUEST).unwrap();
    let traffic = [
        Continuous::start(world.client_pod(), service.cluster_ip(), REQUEST),
        Continuous::start(world.sandbox.outside(), service.node_port(), REQUEST),
    ];
    let some_traffic = || {
        for client in &traffic {
            client.wait_for(30, SOON).unwrap();
        }
    };
    for round in 0..4 {
        some_traffic();
        let before = pinned::links(&world.pins);
        assert_eq!(before.len(), 10, "two hooks of five interfaces");
        let unattended = if round % 2 == 0 {
            world.killed()
        } else {
            world.stopped()
        };
        some_traffic();
        open.echo(REQUEST).unwrap();
        world = unattended.start(&[]);
        let after = pinned::links(&world.pins);
        assert!(before.keys().eq(after.keys()), "{before:?}, then {after:?}");
        for (name, (link, program)) in &before {
            let (link_after, program_after) = &after[name];
            assert_eq!(link, link_after, "the link of {name} stays");
            assert_ne!(program, program_after, "the program of {name} is replaced");
        }
        some_traffic();
        let snapshot = resync_with(&[service.json()]);
        for _ in 0..2 {
            assert_eq!(world.writes(&snapshot), 0, "everything was right already");
        }
        assert_eq!(pinned::links(&world.pins), after);
        some_traffic();
        open.echo(REQUEST).unwrap();
    }
    for client in traffic {
        for sample in client.stop().unwrap() {
            let outcome = &sample.outcome;
            assert!(outcome.is_ok(), "no connection may fail, but {outcome:?}");
        }
    }
}

/// Starts an agent and stops it while the kernel verifies its programs.
fn stop_while_loading(sandbox: &Sandbox, pins: &PinDir) {
    let mut agent = Agent::loading::<&str>(&binary(), sandbox.node(), pins, &[]).unwrap();
    let status = agent.end(Signal::SIGTERM).unwrap();
    assert!(status.success(), "{status}:\n{}", agent.log());
    assert!(
        !agent.is_ready(),
        "the signal was heeded after all:\n{}",
        agent.log()
    );
}

#[test]
fn an_agent_that_is_stopped_while_it_loads_leaves_nothing_pinned() {
    if !has_root() {
        return;
    }
    let (sandbox, pins) = (Sandbox::new().unwrap(), PinDir::new());
    stop_while_loading(&sandbox, &pins);
    assert!(!fs::exists(pins.path()).unwrap());
}

#[test]
fn an_agent_that_is_stopped_while_it_loads_leaves_what_another_has_pinned() {
    let Some(mut world) = World::new() else {
        return;
    };
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    world.add(&service);
    world.ask_from_pod(service.cluster_ip(), 5);
    let unattended = world.killed();
    let before = pinned::links(&unattended.pins);
    stop_while_loading(&unattended.sandbox, &unattended.pins);
    assert_eq!(pinned::links(&unattended.pins), before);
    let client = unattended.sandbox.pod("pod-c").namespace();
    all_answered(client, service.cluster_ip(), 5);
    let mut world = unattended.start(&[]);
    assert_eq!(world.writes(&resync_with(&[service.json()])), 0);
    world.ask_from_pod(service.cluster_ip(), 5);
}

#[test]
fn a_udp_flow_keeps_its_backend_over_a_restart() {
    let Some(mut world) = World::new() else {
        return;
    };
    let [a, b] = ["pod-a", "pod-b"].map(|pod| world.backend(pod));
    let service = Service::new(Transport::Udp).backend(a).backend(b);
    world.add(&service);
    let flow = world
        .client_pod()
        .enter(|| service.cluster_ip().flow().unwrap());
    let first = flow.ask(REQUEST).unwrap().backend;
    let mut world = world.killed().start(&[]);
    let heavier = Service::new(Transport::Udp)
        .weighted(a, 5)
        .backend(b)
        .backend(world.backend("pod-d"));
    world.apply(&resync_with(&[heavier.json()]));
    for _ in 0..20 {
        let backend = flow.ask(REQUEST).unwrap().backend;
        assert_eq!(backend, first, "its backend is still there");
    }
}

#[test]
fn a_resync_repairs_what_someone_else_changed() {
    let Some(mut world) = World::new() else {
        return;
    };
    let [a, b] = ["pod-a", "pod-b"].map(|pod| world.backend(pod));
    let service = Service::new(Transport::Tcp).weighted(a, 3).backend(b);
    let snapshot = resync_with(&[service.json()]);
    assert!(world.writes(&snapshot) > 0);
    let mut tables = Tables::open(&world.pins);
    let right = tables.view();
    let key = *right.keys().next().unwrap();
    let index = tables.frontends.get(&key, 0).unwrap();
    let cell = tables.cells.get(&index, 0).unwrap();
    let damages: [Damage<'_>; 7] = [
        ("a deleted frontend", &|tables| {
            tables.frontends.remove(&key).unwrap();
        }),
        ("a foreign frontend", &|tables| {
            tables.frontends.insert([9; 8], 7, 0).unwrap();
        }),
        ("an index out of bounds", &|tables| {
            tables.frontends.insert(key, u32::MAX, 0).unwrap();
        }),
        ("a cell out of bounds", &|tables| {
            tables.cells.set(index, u64::MAX, 0).unwrap();
        }),
        ("an empty cell", &|tables| {
            tables.cells.set(index, 0, 0).unwrap();
        }),
        ("a changed slot", &|tables| {
            let slot = [u32::MAX, 0, 0, 0];
            tables.slots.set(cell as u32 & 0xfff_ffff, slot, 0).unwrap();
        }),
        ("changed backends", &|tables| {
            for backend in 0..8 {
                tables.backends.set(backend, [1; 16], 0).unwrap();
            }
        }),
    ];
    for (what, damage) in damages {
        damage(&mut tables);
        assert!(world.writes(&snapshot) > 0, "{what} must be repaired");
        assert_eq!(tables.view(), right, "{what} must be repaired");
        assert_eq!(world.writes(&snapshot), 0, "{what} is repaired");
        let tally = world.ask_from_pod(service.cluster_ip(), 50);
        assert_eq!(tally.backends(), [a, b]);
    }
}

#[test]
fn a_pin_directory_is_for_one_agent() {
    let Some(world) = World::new() else { return };
    let refused =
        try_start_agent_with(&binary(), world.sandbox.node(), &world.pins, &[]).unwrap_err();
    let expected = format!("in use by process {}", world.agent.pid());
    assert!(refused.to_string().contains(&expected), "{refused}");
}

#[test]
fn a_flag_that_went_is_refused_while_translation_goes_on() {
    let Some(mut world) = World::new() else {
        return;
    };
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    world.add(&service);
    let unattended = world.stopped();
    let before = pinned::links(&unattended.pins);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agent.toml");
    fs::write(
        &file,
        "max-removal = 10\nconntrack-tcp-timeout-new = \"1m\"\n",
    )
    .unwrap();
    for (flags, words) in [
        (
            ["--conntrack-tcp-timeout-new", "1m"],
            "error: --conntrack-tcp-timeout-new: this flag is gone: ",
        ),
        (
            ["--config", file.to_str().unwrap()],
            "line 2: conntrack-tcp-timeout-new: this flag is gone: ",
        ),
    ] {
        let refused = unattended.try_start_of(&binary(), &flags).unwrap_err();
        let refused = refused.to_string();
        assert!(refused.contains(words), "{refused}");
        assert!(!refused.contains("unexpected argument"), "{refused}");
        let pod = unattended.sandbox.pod("pod-c").namespace();
        all_answered(pod, service.cluster_ip(), 3);
        assert_eq!(pinned::links(&unattended.pins), before);
    }
}

#[test]
fn tables_of_another_layout_are_refused() {
    let Some(mut world) = World::new() else {
        return;
    };
    // Something to keep up, so that the agent leaves its tables behind.
    let backend = world.backend("pod-a");
    world.add(&Service::new(Transport::Tcp).backend(backend));
    let unattended = world.stopped();
    let mut layout: Array<_, [u64; 2]> =
        Array::try_from(Map::Array(pinned::map(&unattended.pins, "LAYOUT"))).unwrap();
    let ours = layout.get(&0, 0).unwrap();
    layout.set(0, [ours[0] + 1, ours[1]], 0).unwrap();
    let before = pinned::links(&unattended.pins);
    let refused = unattended
        .try_start_of(&binary(), &[])
        .unwrap_err()
        .to_string();
    let advice = format!(
        "`shunt cleanup --pin-dir {}`",
        unattended.pins.path().display()
    );
    assert!(
        refused.contains(&format!("have layout {}, not {}", ours[0] + 1, ours[0]))
            && refused.contains(&advice),
        "{refused}"
    );
    assert_eq!(
        pinned::links(&unattended.pins),
        before,
        "nothing is touched"
    );

    layout.set(0, ours, 0).unwrap();
    let cells = unattended.pins.path().join("maps/CELLS_V4");
    fs::remove_file(&cells).unwrap();
    pinned::map(&unattended.pins, "FRONTENDS_V4")
        .pin(&cells)
        .unwrap();
    let refused = unattended
        .try_start_of(&binary(), &[])
        .unwrap_err()
        .to_string();
    assert!(refused.contains("have another CELLS_V4"), "{refused}");
}

#[test]
fn links_follow_their_interfaces() {
    let Some(mut world) = World::new() else {
        return;
    };
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    let snapshot = resync_with(&[service.json()]);
    world.apply(&snapshot);
    let mut unattended = world.killed();
    let before = pinned::links(&unattended.pins);
    unattended.sandbox.remove_pod("pod-c").unwrap();
    unattended
        .sandbox
        .add_pod("pod-c", shunt_tests::addresses::POD_C)
        .unwrap();
    let mut world = unattended.start(&[]);
    assert_eq!(
        pinned::links(&world.pins).len(),
        8,
        "the links of the interface that is gone are removed"
    );
    world.agent.apply_all(&[snapshot]).unwrap();
    let after = pinned::links(&world.pins);
    assert_eq!(after.len(), 10, "and the new interface is attached");
    let same = after.keys().filter(|name| before.contains_key(*name));
    assert_eq!(same.count(), 8);
    world.ask_from_pod(service.cluster_ip(), 20);

    let mut one: Value = serde_json::from_str(&resync()).unwrap();
    one["frontend_ifs"] = json!(["eth0"]);
    world.apply(&one.to_string());
    assert_eq!(
        pinned::links(&world.pins).len(),
        2,
        "what is no longer wanted is unpinned"
    );
}
