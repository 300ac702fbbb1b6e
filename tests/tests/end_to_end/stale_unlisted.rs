//! Sockets of the node's own processes whose backend goes, where the kernel does not list those of UDP.

use std::{
    fs,
    io::ErrorKind,
    net::SocketAddr,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    thread,
};

use serde_json::json;
use shunt_tests::{Ability, Failure, Transport, has_root, kernel_has, wait_until};
use tempfile::TempDir;

use crate::{
    host_world::service,
    stale_sockets::{Client, SETTLED, SOON, flags, stream},
    world::{REQUEST, World, binary},
};

/// The beginning of the message in the log and the status.
const STAY: &str = "connected UDP sockets of this node stay on a backend that is gone: ";

/// Makes a command of the agent that sees no BTF of the kernel. Without that it loads no iterator.
fn without_btf(folder: &Path) -> PathBuf {
    let path = folder.join("shunt");
    let script = format!(
        "#!/bin/sh\nexec unshare --mount sh -c \
         'mount -t tmpfs none /sys/kernel/btf && exec \"$@\"' sh {} \"$@\"\n",
        binary().display()
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn an_agent_that_cannot_list_udp_sockets_says_so_and_ends_those_of_tcp() {
    if !has_root() {
        return;
    }
    if !kernel_has(&[Ability::Listed(Transport::Tcp)]) {
        return;
    }
    let folder = TempDir::new().unwrap();
    let flags = flags();
    let flags = flags.iter().map(String::as_str).chain(["--terminate-tcp"]);
    let flags: Vec<&str> = flags.collect();
    let Some(mut world) = World::of(&without_btf(folder.path()), &flags) else {
        return;
    };
    let event = |pod: SocketAddr| {
        let service = service("web", "10.96.0.10", &[pod]);
        json!({ "event": "UpdateService", "service": service }).to_string()
    };
    let [before, after] = ["pod-a", "pod-b"].map(|pod| event(world.backend(pod)));
    world.apply(&before);
    let frontend = SocketAddr::from(([10, 96, 0, 10], 80));
    let udp = Client::connect(&world, frontend);
    udp.is_answered_by("pod-a");
    let mut tcp = stream(&world, frontend);
    tcp.echo(REQUEST).unwrap();

    world.apply(&after);
    let failure = wait_until("the end of a connection", SOON, || tcp.echo(REQUEST).err());
    match failure.unwrap() {
        Failure::Other(error) => assert_eq!(error.kind(), ErrorKind::ConnectionAborted, "{error}"),
        failure => panic!("{failure}"),
    }
    thread::sleep(SETTLED);
    udp.is_answered_by("pod-a");

    let status = world.shunt(&["status", "-o", "json"]).json();
    let lines = status["host"].as_array().unwrap().iter();
    let lines = lines.filter_map(|line| line.as_str()?.strip_prefix(STAY));
    let [why] = lines.collect::<Vec<_>>()[..] else {
        panic!("one line of the host is to say it: {status}");
    };
    assert!(why.contains("/sys/kernel/btf/vmlinux"), "{why}");
    let stale = json!({ "destroyed_udp": 0, "destroyed_tcp": 1, "moved_udp": 0, "trouble": why });
    assert_eq!(status["stale_sockets"], stale);
    let shown = world.shunt(&["status"]).output;
    let mut shown = shown.lines().filter(|line| line.starts_with("HOST:"));
    assert!(shown.any(|line| line.contains(STAY)));
    let log = world.agent.log();
    assert_eq!(log.matches("stay on a backend").count(), 1, "{log}");
}
