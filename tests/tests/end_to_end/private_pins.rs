//! Pins that would be gone with the agent are refused, and those of a container that has the host's bpf file system are not.

use std::path::Path;

use shunt_tests::{Cgroup, PinDir};

use crate::world::{World, binary};

const REFUSED: &str =
    "is in a mount namespace of the agent's own: what is pinned there would be gone with the agent";

/// Returns the log, until it is ready, of an agent that is started by `script` in namespaces of its own: its arguments
/// are `AGENT` there.
fn log(world: &World, pins: &PinDir, unshare: &[&str], script: &str) -> String {
    let agent = format!(
        "sed '/ ready: /q' < <(NO_COLOR=1 RUST_LOG=info {} agent --socket-lb off --pin-dir {} \
         --socket /run/shunt-private/shunt.sock 2>&1)",
        binary().display(),
        pins.path().display(),
    );
    // Sockets are made where no other agent's are.
    let script = format!(
        "set -e; mount -t tmpfs none /run; {}",
        script.replace("AGENT", &agent)
    );
    let arguments = [unshare, &["bash", "-c", &script]].concat();
    let cgroup = Cgroup::new().unwrap();
    let node = world.sandbox.node();
    cgroup.run(node, Path::new("unshare"), &arguments).unwrap()
}

/// Mounts of one's own, as by `ip netns exec`, and processes too, as in a container. What is started there ends with
/// the shell.
const MOUNTS: &[&str] = &["-fpm"];
const CONTAINER: &[&str] = &["-fpm", "--mount-proc"];

#[test]
fn pins_that_would_be_gone_with_the_agent_are_refused() {
    // Its agent has the host's bpf file system mounted, as there is one on a node.
    let Some(world) = World::new() else {
        return;
    };
    for (what, unshare, script) in [
        (
            "mounted by hand",
            MOUNTS,
            "mount -t bpf bpf /sys/fs/bpf; AGENT",
        ),
        (
            "mounted by the agent, as under `ip netns exec`",
            MOUNTS,
            "umount /sys/fs/bpf; AGENT; test $(stat -f -c %T /sys/fs/bpf) = sysfs",
        ),
        (
            "mounted by the agent in a container that was given none",
            CONTAINER,
            "umount /sys/fs/bpf; AGENT; test $(stat -f -c %T /sys/fs/bpf) = sysfs",
        ),
    ] {
        let log = log(&world, &PinDir::new(), unshare, script);
        assert!(log.contains(REFUSED), "{what}: {log}");
        assert!(
            log.contains("mount -t bpf bpf /sys/fs/bpf"),
            "{what}: {log}"
        );
        assert!(!log.contains(" ready: "), "{what}: {log}");
    }
}

#[test]
fn pins_of_a_container_with_the_hosts_bpf_file_system_outlive_it() {
    let Some(world) = World::new() else {
        return;
    };
    for (what, unshare, script) in [
        ("mounts of its own", MOUNTS, "AGENT"),
        ("a container", CONTAINER, "AGENT"),
        (
            // As runtimes do with a volume.
            "a container with a bind mount",
            CONTAINER,
            "mkdir /run/host; mount --bind /sys/fs/bpf /run/host; umount /sys/fs/bpf; \
             mount --bind /run/host /sys/fs/bpf; umount /run/host; AGENT",
        ),
    ] {
        let pins = PinDir::new();
        let log = log(&world, &pins, unshare, script);
        assert!(log.contains(" ready: "), "{what}: {log}");
        let is_there = pins.path().join("maps/LAYOUT").exists();
        assert!(is_there, "{what}: the tables are pinned on the host");
    }
}
