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

use shunt_tests::wait_until;

use crate::{
    host_world::{HostWorld, service},
    world::{Unattended, World, resync_with},
};

const SOON: Duration = Duration::from_secs(10);

/// A process that asks again and again.
struct Asking {
    child: Child,
    answers: Arc<AtomicU64>,
    // Gives what went wrong.
    reader: JoinHandle<Vec<String>>,
}

impl Asking {
    fn start(host: &HostWorld, way: &str, target: SocketAddr) -> Self {
        let client = Path::new(env!("CARGO_BIN_EXE_client"));
        let arguments = [way, &target.to_string(), "--repeat"];
        let node = host.world.sandbox.node();
        let mut child = host.cgroup.spawn(node, client, &arguments).unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let answers = Arc::new(AtomicU64::new(0));
        let reader = thread::spawn({
            let answers = Arc::clone(&answers);
            move || {
                let mut wrong = Vec::new();
                for line in said.lines().map_while(Result::ok) {
                    answers.fetch_add(1, Ordering::Relaxed);
                    if line != "ok" {
                        wrong.push(line);
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

    /// Lets it end. Gives what went wrong.
    fn stop(mut self) -> Vec<String> {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
        self.reader.join().unwrap()
    }
}

#[test]
fn no_process_of_the_node_fails_while_agents_are_killed_and_take_over() {
    let Some(mut host) = HostWorld::new("host") else {
        return;
    };
    let backends = ["pod-a", "pod-d"].map(|pod| host.world.backend(pod));
    let service = service("web", "10.96.0.10", &backends);
    host.update(slice::from_ref(&service));
    let target: SocketAddr = "10.96.0.10:80".parse().unwrap();
    let asking = ["tcp", "udp", "sendto"].map(|way| Asking::start(&host, way, target));
    let all = |more| asking.iter().for_each(|asking| asking.wait_for(more));
    let ends: [fn(World) -> Unattended; 4] =
        [World::killed, World::stopped, World::killed, World::killed];
    let cgroup = host.cgroup.path().to_str().unwrap().to_owned();
    let flags = ["--socket-lb", "host", "--cgroup", &cgroup];
    for end in ends {
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
