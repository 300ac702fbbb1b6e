//! The capabilities that the agent needs, and no more.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::id,
    sync::atomic::{AtomicU32, Ordering},
};

use serde_json::Value;
use shunt_tests::{Cgroup, Sandbox, Transport, has_root, unlisted};

use crate::{
    host_world::{HostWorld, flags},
    service::Service,
    world::{World, binary, resync_with, try_start_agent_with},
};

/// All that it needs, as `setpriv` names them.
pub(crate) const NEEDED: [&str; 3] = ["bpf", "net_admin", "perfmon"];

/// The agent with these capabilities alone, as a command of its own. Dropping it removes it.
pub(crate) struct Confined(PathBuf);

impl Confined {
    pub(crate) fn new(name: &str, capabilities: &[&str]) -> Self {
        // Tests of one process may have the same name.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("shunt-confined-{}-{name}-{number}", id()));
        let capabilities = format!(",+{}", capabilities.join(",+"));
        let binary = binary();
        let binary = binary.display();
        let script = format!(
            "#!/bin/sh\nexec setpriv --bounding-set=-all{capabilities} \
             --inh-caps=-all{capabilities} {binary} \"$@\"\n"
        );
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Confined {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.0));
    }
}

#[test]
fn three_capabilities_are_enough_for_all_that_an_agent_does() {
    if !has_root() {
        return;
    }
    let confined = Confined::new("enough", &NEEDED);
    let cgroup = Cgroup::new().unwrap();
    let enough = [&flags("all", &cgroup)[..], &["--terminate-tcp"]].concat();
    let world = World::of(confined.path(), &enough).unwrap();
    let mut host = HostWorld { world, cgroup };
    for transport in [Transport::Tcp, Transport::Udp] {
        let service = host.serve(transport);
        host.world.ask_from_pod(service.cluster_ip(), 4);
    }
    host.ask(
        "sendto",
        Service::new(Transport::Udp).cluster_ip().address(),
    )
    .unwrap();
    let is_listed = |transport| unlisted(transport).is_none();
    if is_listed(Transport::Tcp) && is_listed(Transport::Udp) {
        let status = host.world.shunt(&["status", "-o", "json"]).json();
        assert_eq!(status["stale_sockets"]["trouble"], Value::Null);
    }
    // The next one takes its links over, and they can be taken away.
    let HostWorld { world, cgroup } = host;
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    let snapshot = resync_with(&[service.json()]);
    let (node, pins) = (world.sandbox.node(), &world.pins);
    world.agent.stop().unwrap();
    let enough = flags("all", &cgroup);
    let mut agent = try_start_agent_with(confined.path(), node, pins, &enough).unwrap();
    // With something to translate: it would clean up by itself when it stops.
    agent.apply_all(&[snapshot]).unwrap();
    agent.stop().unwrap();
    let pins = pins.path().to_str().unwrap();
    let confined = confined.path().to_str().unwrap();
    let said = node.run_with_input(confined, &["cleanup", "--pin-dir", pins], "");
    let said = said.unwrap();
    assert!(said.starts_with("removed "), "{said}");
}

#[test]
fn a_missing_capability_is_named_in_one_line() {
    if !has_root() {
        return;
    }
    let sandbox = Sandbox::new().unwrap();
    for left_out in NEEDED {
        let others = NEEDED.map(|one| if one == left_out { "chown" } else { one });
        let confined = Confined::new(left_out, &others);
        let confined = confined.path().to_str().unwrap();
        let error = sandbox
            .node()
            .run_with_input(confined, &["agent", "--no-pin"], "");
        let error = format!("{:#}", error.unwrap_err());
        let name = left_out.to_uppercase();
        let said = format!(
            "error: CAP_{name} missing: translation needs CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON, \
             or root"
        );
        assert!(error.ends_with(&said), "{error}");
    }
}
