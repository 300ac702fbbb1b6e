//! Place of the root of all cgroups for an agent in a container, whose own cgroup namespace hides it.

use std::path::Path;

use shunt_tests::{Cgroup, PinDir, Sandbox, has_root};

use crate::world::{World, binary};

/// Returns the log, until it is ready, of an agent in a cgroup namespace of its own, if no cgroup is
/// mounted. It sees the processes of the host, or a process of its own namespace in the place of the
/// first one.
fn log_in_a_container(sees_the_host: bool) -> Option<String> {
    if !has_root() {
        return None;
    }
    let (sandbox, cgroup) = (Sandbox::new().unwrap(), Cgroup::new().unwrap());
    let binary = binary();
    let agent = format!(
        "umount -a -l -t cgroup2; sed '/ ready: /q' < <(NO_COLOR=1 RUST_LOG=info {} agent --no-pin 2>&1)",
        binary.display()
    );
    let script = if sees_the_host {
        // The shell is the first process, and stays in the namespace of the true root.
        format!("mount -t tmpfs none /run; unshare -C bash -c \"{agent}\"; true")
    } else {
        format!("mount -t tmpfs none /run; {agent}; true")
    };
    let namespaces = if sees_the_host { "-fpm" } else { "-Cfpm" };
    let arguments = [namespaces, "--mount-proc", "bash", "-c", &script];
    let log = cgroup.run(sandbox.node(), Path::new("unshare"), &arguments);
    Some(log.unwrap())
}

#[test]
fn an_agent_in_a_container_mounts_the_root_that_the_host_sees() {
    let Some(log) = log_in_a_container(true) else {
        return;
    };
    assert!(log.contains("by getpeername4"), "it must attach: {log}");
    assert!(log.contains("of /run/shunt/cgroup"), "{log}");
    assert!(!log.contains("is not the root of all cgroups"), "{log}");
}

#[test]
fn an_agent_that_takes_its_containers_cgroup_for_the_root_says_so() {
    let Some(log) = log_in_a_container(false) else {
        return;
    };
    assert!(log.contains("by getpeername4"), "it must attach: {log}");
    let words = "/run/shunt/cgroup is not the root of all cgroups";
    assert!(log.contains(words), "{log}");
}

/// A script that runs `shunt init` in a container that sees the root at the usual place, and then an
/// agent in one that has its own cgroup there, and may mount nothing. It ends before it attaches.
const INIT_THEN_AGENT: &str = r#"
set -e
umount -l /run/shunt/cgroup 2>/dev/null || true
mount -t tmpfs none /run
SHUNT init --pin-dir PINS 2>/dev/null
SHUNT init --pin-dir PINS 2>/dev/null
grep -c ' /run/shunt/cgroup ' /proc/self/mountinfo
unshare -Cm bash -ec '
    findmnt -rnt cgroup2 -o TARGET | grep -v "^/run/shunt/" | xargs -r umount -l
    mount -t cgroup2 none /sys/fs/cgroup
    NO_COLOR=1 RUST_LOG=shunt_datapath=debug setpriv --bounding-set -sys_admin --inh-caps -sys_admin \
        SHUNT agent --pin-dir /run/shunt/no-pins 2>&1 || true
'
"#;

#[test]
fn an_agent_finds_the_root_that_an_init_container_has_mounted() {
    // Its agent has the host's bpf file system mounted, as there is one on a node.
    let Some(world) = World::new() else {
        return;
    };
    let (sandbox, cgroup, pins) = (&world.sandbox, Cgroup::new().unwrap(), PinDir::new());
    let script = INIT_THEN_AGENT
        .replace("SHUNT", binary().to_str().unwrap())
        .replace("PINS", pins.path().to_str().unwrap());
    let arguments = ["-m", "bash", "-c", &script];
    let said = cgroup.run(sandbox.node(), Path::new("unshare"), &arguments);
    let said = said.unwrap();
    let mounted = "the root of all cgroups is at /run/shunt/cgroup\n";
    assert_eq!(said.matches(mounted).count(), 2, "{said}");
    assert!(said.contains("\n1\n"), "it is mounted once: {said}");
    let found = "found the cgroup whose sockets are translated path=/run/shunt/cgroup is_root=true";
    assert!(said.contains(found), "{said}");
}
