//! SIGHUP ends no agent, and changes no setting.

use std::{fs, time::Duration};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use shunt_tests::{Transport, wait_until};

use crate::{
    service::Service,
    world::{World, resync_with},
};

const SOON: Duration = Duration::from_secs(10);

/// Sends the signal, and returns when the agent has logged it.
fn hang_up(world: &World) {
    let seen = world.agent.log().len();
    let process = Pid::from_raw(world.agent.pid().cast_signed());
    kill(process, Signal::SIGHUP).unwrap();
    wait_until("the agent logs the signal", SOON, || {
        let log = world.agent.log();
        log[seen..]
            .contains("SIGHUP: flags and the file of --config hold until a restart")
            .then_some(())
    })
    .unwrap();
}

#[test]
fn an_agent_without_a_file_survives_sighup() {
    let Some(mut world) = World::new() else {
        return;
    };
    hang_up(&world);
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    world.add(&service);
    world.ask_from_pod(service.cluster_ip(), 1);
    assert_eq!(world.agent.ended().unwrap(), None);
}

#[test]
fn a_changed_file_waits_for_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agent.toml");
    fs::write(&file, "max-removal = 100\n").unwrap();
    let flags = ["--config", file.to_str().unwrap()];
    let Some(mut world) = World::with_flags(&flags) else {
        return;
    };
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    world.add(&service);
    // One that the agent would not begin with.
    fs::write(&file, "max-removals = 10\n").unwrap();
    hang_up(&world);
    fs::write(&file, "max-removal = 10\n").unwrap();
    hang_up(&world);
    let held = |world: &World| {
        let status = world.shunt(&["status", "-o", "json"]).json();
        !status["held_removal"].is_null()
    };
    world.apply(&Service::delete());
    assert!(!held(&world), "the file from before holds");

    world.add(&service);
    let mut world = world.stopped().start(&flags);
    world.apply(&resync_with(&[service.json()]));
    world.agent.send(&[Service::delete()]).unwrap();
    wait_until("the removal waits", SOON, || held(&world).then_some(())).unwrap();
    world.ask_from_pod(service.cluster_ip(), 1);
}
