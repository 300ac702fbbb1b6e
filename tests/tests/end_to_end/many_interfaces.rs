//! Hundreds of interfaces that are named at once.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    process,
    time::{Duration, Instant},
};

use serde_json::json;
use shunt_tests::{Transport, patience, wait_until};

use crate::{
    service::Service,
    world::{World, binary},
};

/// Both ends of each pair.
const INTERFACES: usize = 500;

/// Limit of the time for all of it. One after the other without expedited grace periods takes 14 s, in
/// which nothing else was done.
const ATTACHED: Duration = Duration::from_secs(3);

/// Time that one event may be held up.
const HELD_UP: Duration = Duration::from_secs(2);

/// An agent that is started with a soft limit which 500 interfaces exceed.
struct Limited(PathBuf);

impl Limited {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("shunt-limited-{}", process::id()));
        let script = format!(
            "#!/bin/sh\nulimit -Sn 256\nexec {} \"$@\"\n",
            binary().display()
        );
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
        Self(path)
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.0));
    }
}

/// Returns the number of interfaces in each state, as the status shows it.
fn states(world: &World) -> (usize, usize) {
    let status = world.shunt(&["status", "-o", "json"]).json();
    let interfaces = status["interfaces"].as_array().unwrap();
    let count = |state| {
        let of_state = interfaces.iter().filter(|one| one["state"] == state);
        of_state.count()
    };
    let (attached, attaching) = (count("attached"), count("attaching"));
    assert_eq!(attached + attaching, interfaces.len(), "{status}");
    (attached, attaching)
}

#[test]
fn five_hundred_interfaces_do_not_hold_up_events() {
    let limited = Limited::new();
    let Some(mut world) = World::of(&limited.0, &[]) else {
        return;
    };
    let pairs = (0..INTERFACES / 2)
        .map(|number| format!("link add many{number} type veth peer name more{number}\n"));
    let node = world.sandbox.node();
    node.configure(&pairs.collect::<String>()).unwrap();
    let few = ["eth0", "eth1", "pod-a", "pod-b", "pod-c"].map(str::to_owned);
    let many =
        (0..INTERFACES / 2).flat_map(|number| [format!("many{number}"), format!("more{number}")]);
    let all: Vec<String> = few.iter().cloned().chain(many).collect();
    let event = |names: &[String]| {
        json!({ "event": "UpdateLocalFrontendIfs", "old": [], "new": names }).to_string()
    };

    let start = Instant::now();
    world.apply(&event(&all));
    let acknowledged = start.elapsed();
    let mut slowest = Duration::ZERO;
    let [a, b] = ["pod-a", "pod-b"].map(|pod| world.backend(pod));
    for round in 0..20 {
        let backend = if round % 2 == 0 { a } else { b };
        let service = Service::new(Transport::Tcp).backend(backend);
        let start = Instant::now();
        world.update(&service);
        slowest = slowest.max(start.elapsed());
        assert_eq!(world.ask_from_pod(service.cluster_ip(), 5).of(backend), 5);
    }
    wait_until("all interfaces are attached", 4 * ATTACHED, || {
        let (attached, attaching) = states(&world);
        (attaching == 0).then(|| assert_eq!(attached, all.len()))
    })
    .unwrap();
    let took = start.elapsed();
    println!(
        "{INTERFACES} interfaces: acknowledged after {acknowledged:.1?}, all attached after at \
         most {took:.1?}; of 20 events meanwhile the slowest took {slowest:.1?}"
    );
    assert!(
        acknowledged.max(slowest) < patience(HELD_UP),
        "{acknowledged:?}, {slowest:?}"
    );
    assert!(took < patience(ATTACHED), "{took:?}");

    let start = Instant::now();
    world.apply(&event(&few));
    println!(
        "all but {} detached after {:.1?}",
        few.len(),
        start.elapsed()
    );
    assert_eq!(states(&world), (few.len(), 0));
}
