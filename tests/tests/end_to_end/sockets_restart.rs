//! Processes of the node go on asking while agents end and take over.

use std::{
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    path::Path,
    process::Child,
    slice,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use shunt_tests::{Cgroup, Namespace, by_length, wait_until};

use crate::{
    host_world::{HostWorld, mapped, service},
    world::{Unattended, World, resync_with},
};

const SOON: Duration = Duration::from_secs(10);

/// A process that asks again and again.
struct Asking {
    child: Child,
    answers: Arc<AtomicU64>,
    // Returns what went wrong.
    reader: JoinHandle<Vec<String>>,
}

impl Asking {
    fn start(cgroup: &Cgroup, namespace: &Namespace, way: &str, target: SocketAddr) -> Self {
        let client = Path::new(env!("CARGO_BIN_EXE_client"));
        let arguments = [way, &target.to_string(), "--repeat"];
        let mut child = cgroup.spawn(namespace, client, &arguments).unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let answers = Arc::new(AtomicU64::new(0));
        let reader = thread::spawn({
            let answers = Arc::clone(&answers);
            let asked = format!("{way} {target}");
            move || {
                let mut wrong = Vec::new();
                for line in said.lines().map_while(Result::ok) {
                    answers.fetch_add(1, Ordering::Relaxed);
                    if line != "ok" {
                        wrong.push(format!("{asked}: {line}"));
                    }
                }
                wrong
            }
        });
        Self {
            child,
            answers,
            reader,
        }
    }

    /// Waits until so many more have ended.
    fn wait_for(&self, more: u64) {
        let goal = self.answers.load(Ordering::Relaxed) + more;
        wait_until("more answers", SOON, || {
            (self.answers.load(Ordering::Relaxed) >= goal).then_some(())
        })
        .unwrap();
    }

    /// Lets it end. Returns what went wrong.
    fn stop(mut self) -> Vec<String> {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
        self.reader.join().unwrap()
    }
}

/// Number of agents' ends.
const ROUNDS: (usize, usize) = (4, 50);

#[test]
fn no_process_of_the_node_fails_while_agents_are_killed_and_take_over() {
    nobody_fails("host", |host, target| {
        let node = host.world.sandbox.node();
        ["tcp", "udp", "sendto"]
            .map(|way| Asking::start(&host.cgroup, node, way, target.v4))
            .into()
    });
}

#[test]
fn no_ipv6_socket_of_the_node_fails_while_agents_are_killed_and_take_over() {
    nobody_fails("host", |host, target| {
        let node = host.world.sandbox.node();
        ["tcp", "udp", "sendto"]
            .into_iter()
            .flat_map(|way| {
                [target.v6, mapped(target.v4)]
                    .map(|target| Asking::start(&host.cgroup, node, way, target))
            })
            .collect()
    });
}

#[test]
fn no_pod_fails_at_its_sockets_while_agents_are_killed_and_take_over() {
    nobody_fails("all", |host, target| {
        let pod = host.world.client_pod();
        ["tcp", "udp", "sendto"]
            .into_iter()
            .flat_map(|way| {
                [target.v4, target.v6, mapped(target.v4)]
                    .map(|target| Asking::start(&host.cgroup, pod, way, target))
            })
            .collect()
    });
}

/// The frontends that are asked.
struct Frontends {
    v4: SocketAddr,
    v6: SocketAddr,
}

/// Has processes ask while agents end and others take over; nothing must go wrong.
fn nobody_fails(mode: &str, start: impl FnOnce(&HostWorld, &Frontends) -> Vec<Asking>) {
    let Some(mut host) = HostWorld::new(mode) else {
        return;
    };
    let backends =
        ["pod-a", "pod-d"].map(|pod| [host.world.backend(pod), host.world.backend_v6(pod)]);
    let service = service("web", "10.96.0.10", backends.as_flattened());
    host.update(slice::from_ref(&service));
    let target = Frontends {
        v4: "10.96.0.10:80".parse().unwrap(),
        v6: "[fd00:10:96::10]:80".parse().unwrap(),
    };
    let asking = start(&host, &target);
    let all = |more| asking.iter().for_each(|asking| asking.wait_for(more));
    let ends: [fn(World) -> Unattended; 4] =
        [World::killed, World::stopped, World::killed, World::killed];
    let cgroup = host.cgroup.path().to_str().unwrap().to_owned();
    let (short, long) = ROUNDS;
    let ends = ends.into_iter().cycle().take(by_length(short, long));
    // Each agent has larger tables than the one before.
    for (end, room) in ends.zip((80..).step_by(10)) {
        let frontends = room.to_string();
        let flags = [
            "--socket-lb",
            mode,
            "--cgroup",
            &cgroup,
            "--max-frontends",
            &frontends,
            "--max-backends",
            "300",
        ];
        all(30);
        host = host.restart(
            |world| {
                let unattended = end(world);
                all(30);
                unattended
            },
            &flags,
        );
        all(30);
        host.world.apply(&resync_with(slice::from_ref(&service)));
        all(30);
    }
    for asking in asking {
        assert_eq!(asking.stop(), Vec::<String>::new());
    }
}
