//! Traffic for onlookers: every client sends to every frontend that it can use, at a pace of its own
//! that swells and ebbs.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use shunt_tests::Target;

use crate::{cluster::Cluster, steady::REQUEST};

/// The shortest pause between two connections of a client; the next client's is longer.
const PAUSE: Duration = Duration::from_millis(12);

/// The difference between the pauses of two clients.
const STEP: Duration = Duration::from_millis(9);

/// Period of the swell and ebb.
const TIDE: Duration = Duration::from_secs(40);

/// The traffic, as long as this is not dropped.
#[derive(Debug)]
pub(crate) struct Trickle {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Trickle {
    pub(crate) fn start(cluster: &Cluster) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut pause = PAUSE;
        let mut threads = Vec::new();
        for client in cluster.clients() {
            for frontend in cluster.model().frontends(client) {
                let target = Target::new(frontend.transport, frontend.address);
                let stop = Arc::clone(&stop);
                threads.push(
                    cluster
                        .namespace(client)
                        .enter(|| thread::spawn(move || ask(&target, pause, &stop))),
                );
                pause += STEP;
            }
        }
        Self { stop, threads }
    }
}

impl Drop for Trickle {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

fn ask(target: &Target, pause: Duration, stop: &AtomicBool) {
    let begin = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        // An onlooker sees whether it is answered.
        drop(target.ask(REQUEST));
        let turns = begin.elapsed().as_secs_f64() / TIDE.as_secs_f64();
        // Each at another time.
        let phase = pause.as_secs_f64() * 100.0;
        let tide = (std::f64::consts::TAU * turns + phase).sin();
        thread::sleep(pause.mul_f64(1.0 + 0.6 * tide));
    }
}
