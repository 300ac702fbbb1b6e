//! Pins that others remove, or hide by a mount: the agent pins everything again, so that it still may die.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    slice,
    time::Duration,
};

use aya::maps::MapInfo;
use shunt_tests::{PinDir, Transport, run, wait_until};

use crate::{
    command::shunt_at,
    host_world::{HostWorld, ask, flags},
    pinned,
    service::Service,
    world::{REQUEST, World, all_answered, resync_with},
};

const SOON: Duration = Duration::from_secs(10);

/// Flags of an agent that looks for its pins every second.
const EACH_SECOND: [&str; 2] = ["--conntrack-scan-interval", "1s"];

/// Flags of an agent with links of XDP, which no connection of these tests passes.
const XDP: [&str; 2] = ["--xdp=generic", "--xdp-interface=eth*"];

/// A file system that is mounted over a pin directory until this is dropped.
struct MountedOver(PathBuf);

impl MountedOver {
    fn new(pins: &PinDir, kind: &str) -> Self {
        let path = pins.path().to_owned();
        run("mount", &["-t", kind, kind, path.to_str().unwrap()]).unwrap();
        Self(path)
    }
}

impl Drop for MountedOver {
    fn drop(&mut self) {
        // The agent has the directory open.
        if let Err(error) = run("umount", &["-l", self.0.to_str().unwrap()]) {
            eprintln!("left behind: {error:#}");
        }
    }
}

/// A node with every kind of pin, whose service has its backend in a pod of the node.
fn world(further: &[&str]) -> Option<(HostWorld, Service)> {
    let mut host = HostWorld::with_flags("host", &[&XDP, further].concat())?;
    let service = Service::new(Transport::Tcp).backend(host.world.backend("pod-a"));
    host.world.apply(&resync_with(&[service.json()]));
    Some((host, service))
}

/// The kernel's numbers of all that is pinned, by folder and name.
fn identities(pins: &PinDir) -> BTreeMap<String, u32> {
    let maps = fs::read_dir(pins.path().join("maps")).unwrap();
    let maps = maps.map(|map| {
        let path = map.unwrap().path();
        (
            format!("maps/{}", name(&path)),
            MapInfo::from_pin(&path).unwrap().id(),
        )
    });
    let programs = pinned::programs(pins).into_iter();
    let programs = programs.map(|(name, id)| (format!("programs/{name}"), id));
    let links = pinned::links(pins).into_iter();
    let links = links.map(|(name, (id, _))| (format!("links/{name}"), id));
    maps.chain(programs).chain(links).collect()
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

/// Removes everything that is pinned, but no directory.
fn remove_pins(pins: &PinDir) {
    for folder in ["links", "programs", "maps"] {
        for pin in fs::read_dir(pins.path().join(folder)).unwrap() {
            fs::remove_file(pin.unwrap().path()).unwrap();
        }
    }
}

/// The status' sentences about the host.
fn complaints(world: &World) -> String {
    let status = shunt_at(world.agent.socket(), &["status", "-o", "json"], "").json();
    status["host"].to_string()
}

/// Waits until the status has this sentence about the host, or no longer has it.
fn wait_for(world: &World, sentence: &str, is_there: bool) {
    let waited = wait_until("the status has changed", SOON, || {
        (complaints(world).contains(sentence) == is_there).then_some(())
    });
    waited.unwrap_or_else(|error| panic!("{sentence:?}: {error:#}: {}", complaints(world)));
}

const PINNED_AGAIN: &str = "everything is pinned again";
const CANNOT_BE_PINNED: &str = "the agent's death would end translation";

/// The agent dies, and the next one takes over: connections go on, and new ones are answered, of pods and of processes of
/// the node.
fn assert_outlives_agents(host: HostWorld, service: &Service) -> HostWorld {
    let target = service.cluster_ip();
    let mut open = host.world.client_pod().enter(|| target.connect().unwrap());
    open.echo(REQUEST).unwrap();
    let HostWorld { world, cgroup } = host;
    let unattended = world.killed();
    open.echo(REQUEST).unwrap();
    let pod = unattended.sandbox.pod("pod-c").namespace();
    all_answered(pod, target, 5);
    ask(&cgroup, unattended.sandbox.node(), "tcp", target.address()).unwrap();
    let flags = [&flags("host", &cgroup)[..], &XDP, &EACH_SECOND].concat();
    let mut world = unattended.start(&flags);
    open.echo(REQUEST).unwrap();
    let snapshot = resync_with(slice::from_ref(&service.json()));
    assert_eq!(world.writes(&snapshot), 0, "the tables are the same");
    world.ask_from_pod(target, 5);
    ask(&cgroup, world.sandbox.node(), "tcp", target.address()).unwrap();
    open.echo(REQUEST).unwrap();
    HostWorld { world, cgroup }
}

#[test]
fn a_resync_pins_again_what_others_have_removed() {
    let Some((mut host, service)) = world(&[]) else {
        return;
    };
    let before = identities(&host.world.pins);
    for kind in [
        "maps/LAYOUT",
        "maps/CONNTRACK_V4",
        "maps/IPV6_PROGRAMS-",
        "programs/tc_ingress",
        "links/cgroup-connect4",
    ] {
        let mut names = before.keys();
        assert!(
            names.any(|name| name.starts_with(kind)),
            "{kind}: {before:?}"
        );
    }
    let mut names = before.keys();
    assert!(names.any(|name| name.ends_with("-xdp")), "{before:?}");
    remove_pins(&host.world.pins);
    host.world.apply(&resync_with(&[service.json()]));
    assert_eq!(identities(&host.world.pins), before);
    wait_for(&host.world, PINNED_AGAIN, true);
    // One that is of something else is replaced.
    let links = host.world.pins.path().join("links");
    let [one, other] = ["cgroup-connect4", "cgroup-connect6"].map(|name| links.join(name));
    fs::rename(&one, &other).unwrap();
    host.world.apply(&resync_with(&[service.json()]));
    assert_eq!(identities(&host.world.pins), before);
    assert_outlives_agents(host, &service);
}

#[test]
fn a_scan_pins_again_what_others_have_removed_with_its_directory() {
    let Some((host, service)) = world(&EACH_SECOND) else {
        return;
    };
    let before = identities(&host.world.pins);
    fs::remove_dir_all(host.world.pins.path()).unwrap();
    wait_for(&host.world, PINNED_AGAIN, true);
    assert_eq!(identities(&host.world.pins), before);
    let log = host.world.agent.log();
    assert!(log.contains("maps/LAYOUT"), "it names the pins: {log}");
    let host = assert_outlives_agents(host, &service);
    assert!(!complaints(&host.world).contains(PINNED_AGAIN));
}

#[test]
fn what_a_mount_hides_is_pinned_on_what_was_mounted() {
    let Some((host, service)) = world(&EACH_SECOND) else {
        return;
    };
    let before = identities(&host.world.pins);
    let mounted = MountedOver::new(&host.world.pins, "bpf");
    wait_for(&host.world, PINNED_AGAIN, true);
    assert_eq!(identities(&host.world.pins), before);
    let host = assert_outlives_agents(host, &service);
    // What is visible again is what the agent before had pinned.
    drop(mounted);
    wait_for(&host.world, PINNED_AGAIN, true);
    assert_outlives_agents(host, &service);
}

#[test]
fn an_interface_is_detached_also_if_a_mount_hides_the_pins() {
    let Some((mut host, service)) = world(&EACH_SECOND) else {
        return;
    };
    let mounted = MountedOver::new(&host.world.pins, "bpf");
    wait_for(&host.world, PINNED_AGAIN, true);
    let interfaces = r#"{"event":"UpdateLocalFrontendIfs","old":[],"new":["eth0"]}"#;
    host.world.apply(interfaces);
    let target = service.cluster_ip().within(Duration::from_millis(300));
    let outcome = host.world.client_pod().enter(|| target.ask(REQUEST));
    assert!(outcome.is_err(), "its link ends, but {outcome:?}");
    drop(mounted);
}

#[test]
fn pins_that_cannot_be_made_again_are_a_problem_until_they_can() {
    let Some((host, service)) = world(&EACH_SECOND) else {
        return;
    };
    let mounted = MountedOver::new(&host.world.pins, "tmpfs");
    wait_for(&host.world, CANNOT_BE_PINNED, true);
    let log = host.world.agent.log();
    assert!(log.contains(CANNOT_BE_PINNED), "{log}");
    drop(mounted);
    wait_for(&host.world, CANNOT_BE_PINNED, false);
    assert_outlives_agents(host, &service);
}
