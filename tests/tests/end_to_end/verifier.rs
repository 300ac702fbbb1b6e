//! Programs that the kernel verifies while the agent applies events: an interface is the first to need them.

use std::{
    env,
    fs::{self, File},
    path::PathBuf,
    process,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use shunt_tests::{Transport, addresses, wait_until};

use crate::{
    interfaces::{frontend_interfaces, shown},
    monitor::{ENDED, Monitor, said, wait_for},
    scripted::Scripted,
    service::Service,
    tun::Tun,
    world::World,
    xdp::status,
};

const SOON: Duration = Duration::from_secs(20);

/// The address of the manifests.
const PROBED: [&str; 2] = ["--probe-bind-address", "127.0.0.1"];

/// The log's word for each verification in a thread, and for its success.
const VERIFIES: &str = "the kernel verifies programs";
const LOADED: &str = "programs loaded";

/// Number of changes of the interfaces.
const CHANGES: u32 = 100;

/// A verifier that does not begin until this is dropped.
struct Held(PathBuf);

impl Held {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("shunt-held-{}-{number}", process::id()));
        File::create(&path).unwrap();
        Self(path)
    }

    fn agent(&self) -> Scripted {
        Scripted::with(&[("SHUNT_HOLD_VERIFIER", self.0.as_os_str())])
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.0));
    }
}

fn await_state(world: &World, interface: &str, state: &str) {
    wait_until(&format!("{interface} is {state}"), SOON, || {
        (shown(world, interface)?["state"] == state).then_some(())
    })
    .unwrap();
}

/// Has interfaces change, and waits until the agent has seen all of that.
fn change_links(world: &World) {
    let node = world.sandbox.node();
    let change = |number: u32| format!("link set tun0 txqueuelen {}\n", 500 + number);
    let changes: String = (0..CHANGES).map(change).collect();
    node.configure(&changes).unwrap();
    node.configure("link add last type veth peer name last0\n")
        .unwrap();
    await_state(world, "last", "attached");
}

#[test]
fn events_are_applied_while_the_kernel_verifies_the_programs_of_an_interface() {
    let held = Held::new();
    let agent = held.agent();
    let Some(mut world) = World::of(agent.path(), &PROBED) else {
        return;
    };
    world.apply(&frontend_interfaces(&["eth0", "pod-c", "tun0", "last"]));
    let _tun = Tun::new(world.sandbox.node(), "tun0");
    await_state(&world, "tun0", "loading");
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    world.add(&service);
    world.ask_from_pod(service.cluster_ip(), 3);
    change_links(&world);
    for path in ["/livez", "/readyz"] {
        assert_eq!(world.probe(path).0, 200, "{path}");
    }
    await_state(&world, "tun0", "loading");
    world.update(&service.clone().backend(world.backend("pod-b")));
    assert_eq!(said(&world, LOADED), 0);
    drop(held);
    await_state(&world, "tun0", "attached");
    assert_eq!(said(&world, VERIFIES), 1, "{}", world.agent.log());
}

#[test]
fn a_refused_program_is_not_verified_at_each_link_change() {
    let agent = Scripted::with(&[("SHUNT_REFUSE_PROGRAM", "tc_ingress_l3".as_ref())]);
    let Some(mut world) = World::of(agent.path(), &[]) else {
        return;
    };
    world.apply(&frontend_interfaces(&["eth0", "pod-c", "tun0", "last"]));
    let _tun = Tun::new(world.sandbox.node(), "tun0");
    await_state(&world, "tun0", "failed");
    let reason = shown(&world, "tun0").unwrap()["reason"].clone();
    assert!(
        reason.as_str().unwrap().contains("tc_ingress_l3"),
        "{reason}"
    );
    change_links(&world);
    await_state(&world, "tun0", "failed");
    assert_eq!(said(&world, VERIFIES), 1, "{}", world.agent.log());
}

#[test]
fn events_are_applied_while_the_kernel_verifies_the_program_of_an_uplink() {
    let held = Held::new();
    let agent = held.agent();
    let Some(mut world) = World::of(agent.path(), &["--xdp=auto"]) else {
        return;
    };
    let outside = addresses::OUTSIDE;
    world
        .sandbox
        .node()
        .configure(&format!("route add default via {outside} dev eth0\n"))
        .unwrap();
    let await_uplink = |world: &World, state: &str| {
        wait_until(&format!("the uplink is {state}"), SOON, || {
            (status(&world.agent)["uplinks"][0]["state"] == state).then_some(())
        })
        .unwrap();
    };
    await_uplink(&world, "loading");
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    world.add(&service);
    world.ask_from_pod(service.cluster_ip(), 3);
    await_uplink(&world, "loading");
    drop(held);
    await_uplink(&world, "native");
}

#[test]
fn an_interface_that_comes_while_somebody_watches_has_programs_then_and_later() {
    let Some(mut world) = World::new() else {
        return;
    };
    let monitor = Monitor::first(&world, &[]);
    world.apply(&frontend_interfaces(&["eth0", "pod-c", "tun0"]));
    let _tun = Tun::new(world.sandbox.node(), "tun0");
    await_state(&world, "tun0", "attached");
    let both = "programs of both objects are verified";
    assert_eq!(said(&world, LOADED), 2, "{both}: {}", world.agent.log());
    drop(monitor);
    wait_for(&world, ENDED, 1);
    await_state(&world, "tun0", "attached");
    // The next one has them replaced again, and nothing is verified in the loop.
    let _monitor = Monitor::first(&world, &[]);
    assert_eq!(said(&world, VERIFIES), 2, "{}", world.agent.log());
}

#[test]
fn programs_that_tell_and_that_were_loaded_before_an_interface_came_are_completed() {
    let held = Held::new();
    let agent = held.agent();
    let Some(mut world) = World::of(agent.path(), &[]) else {
        return;
    };
    world.apply(&frontend_interfaces(&["eth0", "pod-c", "tun0"]));
    let _tun = Tun::new(world.sandbox.node(), "tun0");
    await_state(&world, "tun0", "loading");
    // A watcher gets programs for the interfaces that had them.
    let _monitor = Monitor::first(&world, &[]);
    drop(held);
    await_state(&world, "tun0", "attached");
    assert_eq!(said(&world, LOADED), 2, "{}", world.agent.log());
}
