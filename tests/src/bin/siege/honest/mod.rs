//! Honest clients: they use services as usual, and check all that they get.

mod ledger;
mod tcp;
mod udp;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use shunt_tests::{Answer, Failure, Namespace, Random, Target};

pub(crate) use self::ledger::Ledger;
use self::{
    tcp::{LongTcp, ReusedPort, ShortTcp},
    udp::{LongUdp, ShortUdp},
};
use crate::{
    field::{Family, Field},
    flood::Targets,
    live::Live,
    services::{BACKENDS, Service},
};

/// Time that a client waits for a connection, for an answer, and for both together.
const PATIENCE: Duration = Duration::from_secs(4);

/// Interval at which a client that pauses checks for its end.
const GLANCE: Duration = Duration::from_millis(20);

/// The pauses of clients with long connections: the longest is that of a connection that is
/// forgotten after half a minute unless it counts as established.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(300),
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(35),
];

/// Clients with the same kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    TcpOfPod,
    TcpOfOutside,
    TcpFromAfar,
    TcpReusedPort,
    LongTcpOfPod,
    LongTcpOfOutside,
    LongTcpFromAfar,
    UdpOfPod,
    UdpOfOutside,
    LongUdpOfPod,
    LongUdpOfOutside,
}

impl Kind {
    /// Each with how many clients there are. A far one waits most of its time.
    const ALL: [(Self, u32); 11] = [
        (Self::TcpOfPod, 2),
        (Self::TcpOfOutside, 2),
        (Self::TcpFromAfar, 8),
        (Self::TcpReusedPort, 1),
        (Self::LongTcpOfPod, 8),
        (Self::LongTcpOfOutside, 8),
        (Self::LongTcpFromAfar, 4),
        (Self::UdpOfPod, 2),
        (Self::UdpOfOutside, 2),
        (Self::LongUdpOfPod, 4),
        (Self::LongUdpOfOutside, 4),
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::TcpOfPod => "TCP, pod",
            Self::TcpOfOutside => "TCP, outside",
            Self::TcpFromAfar => "TCP, 200 ms away",
            Self::TcpReusedPort => "TCP, ports reused, pod",
            Self::LongTcpOfPod => "TCP, long, pod",
            Self::LongTcpOfOutside => "TCP, long, outside",
            Self::LongTcpFromAfar => "TCP, long, 200 ms away",
            Self::UdpOfPod => "UDP, new flows, pod",
            Self::UdpOfOutside => "UDP, new flows, outside",
            Self::LongUdpOfPod => "UDP, long flows, pod",
            Self::LongUdpOfOutside => "UDP, long flows, outside",
        }
    }

    fn namespace(self, field: &Field) -> &Namespace {
        match self {
            Self::TcpOfPod
            | Self::TcpReusedPort
            | Self::LongTcpOfPod
            | Self::UdpOfPod
            | Self::LongUdpOfPod => field.pod(),
            Self::TcpOfOutside
            | Self::LongTcpOfOutside
            | Self::UdpOfOutside
            | Self::LongUdpOfOutside => field.outside(),
            Self::TcpFromAfar | Self::LongTcpFromAfar => field.far(),
        }
    }

    /// The client number `number` of these.
    fn client(self, family: Family, number: u32, targets: &Targets) -> Box<dyn Client> {
        let long = PAUSES[number as usize % PAUSES.len()];
        let web = |from: &Live, service: Target| LongTcp::new(service, from.clone(), long);
        let (cluster_ip, node_port) = (
            Target::tcp(Service::WEB.cluster_ip(family)).within(PATIENCE),
            Target::tcp(Service::WEB.node_port(family)).within(PATIENCE),
        );
        let (cluster_ip_udp, node_port_udp) = (
            Target::udp(Service::DNS.cluster_ip(family)),
            Target::udp(Service::DNS.node_port(family)),
        );
        match self {
            Self::TcpOfPod => Box::new(ShortTcp::new(cluster_ip)),
            Self::TcpOfOutside | Self::TcpFromAfar => Box::new(ShortTcp::new(node_port)),
            Self::TcpReusedPort => Box::new(ReusedPort::new([cluster_ip, node_port])),
            Self::LongTcpOfPod => Box::new(web(&targets.pod, cluster_ip)),
            Self::LongTcpOfOutside | Self::LongTcpFromAfar => {
                Box::new(web(&targets.outside, node_port))
            }
            Self::UdpOfPod => Box::new(ShortUdp::new(cluster_ip_udp)),
            Self::UdpOfOutside => Box::new(ShortUdp::new(node_port_udp)),
            Self::LongUdpOfPod => Box::new(LongUdp::new(cluster_ip_udp, long)),
            Self::LongUdpOfOutside => Box::new(LongUdp::new(node_port_udp, long)),
        }
    }
}

/// An operation that went well.
struct Done {
    latency: Duration,
    /// Number of repeated sends.
    repeats: u32,
}

/// A client does one thing after the other.
trait Client: Send {
    /// Does the next one.
    fn ask(&mut self, random: &mut Random) -> Result<Done, String>;

    /// The pause after it.
    fn pause(&self) -> Duration;

    /// Returns whether it is to ask once more at the end, since it may have paused for long.
    fn has_last_word(&self) -> bool {
        false
    }
}

/// All clients. Dropping them ends them.
pub(crate) struct Clients {
    stop: Arc<AtomicBool>,
    count: Arc<Count>,
    threads: Vec<JoinHandle<Ledger>>,
}

/// Numbers of operations so far.
#[derive(Debug, Default)]
struct Count {
    done: AtomicU64,
    failed: AtomicU64,
}

impl Clients {
    /// Starts them.
    pub(crate) fn start(
        field: &Field,
        family: Family,
        seed: u64,
        begin: Instant,
        targets: &Targets,
    ) -> Self {
        let mut clients = Self {
            stop: Arc::new(AtomicBool::new(false)),
            count: Arc::new(Count::default()),
            threads: Vec::new(),
        };
        for (kind, count) in Kind::ALL {
            for number in 0..count {
                let mut client = kind.client(family, number, targets);
                let mut ledger = Ledger::new(kind.name());
                let mut random = Random::new(seed, clients.threads.len() as u64);
                let (stop, count) = (Arc::clone(&clients.stop), Arc::clone(&clients.count));
                let run = move || {
                    while !stop.load(Ordering::Relaxed) {
                        one(&mut *client, &mut random, &mut ledger, begin, &count);
                        pause(client.pause(), &stop);
                    }
                    if client.has_last_word() {
                        one(&mut *client, &mut random, &mut ledger, begin, &count);
                    }
                    ledger
                };
                let thread = kind.namespace(field).enter(|| thread::spawn(run));
                clients.threads.push(thread);
            }
        }
        clients
    }

    /// Returns the numbers of operations that went well and that failed, so far.
    pub(crate) fn so_far(&self) -> (u64, u64) {
        let Count { done, failed } = &*self.count;
        (done.load(Ordering::Relaxed), failed.load(Ordering::Relaxed))
    }

    /// Ends them, with a last word of those whose connections are open. Returns a ledger for each
    /// kind.
    ///
    /// # Errors
    ///
    /// When one panicked.
    pub(crate) fn stop(mut self) -> Result<Vec<Ledger>> {
        self.stop.store(true, Ordering::Relaxed);
        let mut ledgers: Vec<Ledger> = Vec::new();
        for thread in self.threads.drain(..) {
            let Ok(ledger) = thread.join() else {
                bail!("a client panicked");
            };
            match ledgers.iter_mut().find(|it| it.name() == ledger.name()) {
                Some(same) => same.join(ledger),
                None => ledgers.push(ledger),
            }
        }
        Ok(ledgers)
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

fn one(
    client: &mut dyn Client,
    random: &mut Random,
    ledger: &mut Ledger,
    begin: Instant,
    count: &Count,
) {
    let started = Instant::now();
    match client.ask(random) {
        Ok(Done { latency, .. }) if latency > PATIENCE => {
            count.failed.fetch_add(1, Ordering::Relaxed);
            let reason = format!("answered after more than {PATIENCE:?}");
            ledger.failed(started.duration_since(begin), started.elapsed(), reason);
        }
        Ok(Done { latency, repeats }) => {
            count.done.fetch_add(1, Ordering::Relaxed);
            ledger.done(latency, repeats);
        }
        Err(reason) => {
            count.failed.fetch_add(1, Ordering::Relaxed);
            ledger.failed(started.duration_since(begin), started.elapsed(), reason);
        }
    }
}

fn pause(time: Duration, stop: &AtomicBool) {
    let end = Instant::now() + time;
    while !stop.load(Ordering::Relaxed) {
        match end.checked_duration_since(Instant::now()) {
            Some(left) if !left.is_zero() => thread::sleep(left.min(GLANCE)),
            _ => return,
        }
    }
}

/// The length of a request, in bytes: one packet or several.
fn length(random: &mut Random) -> usize {
    1 + random.below(4000) as usize
}

/// Returns whether a backend of the service has answered; the bytes were compared before.
fn of_a_backend(answer: Result<Answer, Failure>, step: &str) -> Result<Answer, String> {
    let answer = answer.map_err(|failure| format!("{step}: {failure}"))?;
    if BACKENDS.iter().any(|(pod, _)| *pod == answer.name) {
        Ok(answer)
    } else {
        Err(format!("{step}: {} has answered", answer.name))
    }
}
