//! Remains after a cleanup: nothing.

use std::{
    collections::BTreeSet,
    fs,
    panic::{self, AssertUnwindSafe},
    path::Path,
    time::Duration,
};

use shunt_tests::{Namespace, Transport, has_root, run, wait_until};

use crate::{
    service::Service,
    world::{REQUEST, World, all_answered, binary},
};

const SOON: Duration = Duration::from_secs(5);

const SILENCE: Duration = Duration::from_millis(300);

/// The kernel frees programs a little after their last user is gone.
fn assert_unloaded(programs: &BTreeSet<u32>) {
    assert!(
        !programs.is_empty(),
        "a running agent holds kernel programs"
    );
    wait_until(
        &format!("the programs {programs:?} are unloaded"),
        SOON,
        || {
            let mut loaded = aya::programs::loaded_programs().flatten();
            loaded
                .all(|program| !programs.contains(&program.id()))
                .then_some(())
        },
    )
    .unwrap();
}

fn namespaces() -> BTreeSet<String> {
    let entries = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

#[test]
fn a_sandbox_leaves_nothing_behind() {
    let Some(mut world) = World::new() else {
        return;
    };
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    world.add(&service);
    world.ask_from_pod(service.cluster_ip(), 5);
    let programs = world.agent.programs().unwrap();
    let process = Path::new("/proc").join(world.agent.pid().to_string());
    let mut names: Vec<_> = world
        .sandbox
        .pods()
        .map(|(_, pod)| pod.namespace().name().to_owned())
        .collect();
    for namespace in [
        world.sandbox.node(),
        world.sandbox.node2(),
        world.sandbox.outside(),
    ] {
        names.push(namespace.name().to_owned());
    }
    assert!(process.exists());
    assert!(names.iter().all(|name| namespaces().contains(name)));

    drop(world);
    assert!(!process.exists(), "the agent must have ended");
    let left = namespaces();
    assert!(
        names.iter().all(|name| !left.contains(name)),
        "{names:?} must be gone, but {left:?}"
    );
    assert_unloaded(&programs);
}

#[test]
fn a_namespace_is_removed_on_panic() {
    if !has_root() {
        return;
    }
    let mut name = String::new();
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| {
        let namespace = Namespace::new(u32::MAX, "panic").unwrap();
        namespace.name().clone_into(&mut name);
        assert!(namespaces().contains(&name));
        panic!("on purpose");
    }));
    assert!(outcome.is_err());
    assert!(
        !namespaces().contains(&name),
        "a panic must not leave {name}"
    );
}

#[test]
fn cleanup_removes_everything() {
    let Some(mut world) = World::new() else {
        return;
    };
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    world.add(&service);
    let World {
        agent,
        pins,
        sandbox,
    } = world;
    let programs = agent.programs().unwrap();
    let cleanup = || {
        let path = pins.path().to_str().unwrap();
        run(binary().to_str().unwrap(), &["cleanup", "--pin-dir", path])
    };
    let refused = format!("{:#}", cleanup().unwrap_err());
    let holder = format!("in use by process {}", agent.pid());
    assert!(refused.contains(&holder), "{refused}");

    let status = agent.stop().unwrap();
    assert!(status.success(), "SIGTERM is a clean exit, not {status}");
    let pod = sandbox.pod("pod-c").namespace();
    all_answered(pod, service.cluster_ip(), 20);
    let removed = cleanup().unwrap();
    assert!(
        removed.contains("10 links, 2 programs"),
        "two hooks of five interfaces: {removed}"
    );
    assert!(!pins.path().exists());
    assert_unloaded(&programs);
    let outcome = pod.enter(|| service.cluster_ip().within(SILENCE).ask(REQUEST));
    assert!(
        outcome.is_err(),
        "nothing may translate after a cleanup, but {outcome:?}"
    );
    assert!(cleanup().unwrap().contains("nothing is pinned"));
}

#[test]
fn cleanup_removes_nothing_but_pins() {
    let output = run(
        binary().to_str().unwrap(),
        &["cleanup", "--pin-dir", env!("CARGO_MANIFEST_DIR")],
    );
    let refused = format!("{:#}", output.unwrap_err());
    assert!(refused.contains("not on a bpf file system"), "{refused}");
}

#[test]
fn an_agent_with_nothing_to_keep_up_leaves_no_pins() {
    let Some(world) = World::new() else {
        return;
    };
    let dir = world.pins.path().to_owned();
    assert!(dir.exists(), "pinned while it runs");
    world.agent.stop().unwrap();
    assert!(
        !dir.exists(),
        "no service and no connection: nothing is left"
    );
}
