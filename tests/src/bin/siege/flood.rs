//! Floods: packets without a real sender, at any rate.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use shunt_tests::{
    Namespace, Random, addresses,
    raw::{Pace, Packet, What, Wire},
};

use crate::{
    field::{Family, Field},
    live::Live,
    services::Service,
};

/// The packets of a flood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// SYNs from random sources.
    Syn,
    /// SYNs from random sources, each followed by an ACK that acknowledges anything.
    SynAndAck,
    /// ACKs from random sources, of no connection.
    Ack,
    /// Datagrams from random sources, which get no answer.
    Udp,
    /// Datagrams from random ports of a pod, which get no answer.
    UdpOfPod,
    /// Resets of open connections, with random sequence numbers.
    Reset,
    /// The same for connections of a pod.
    ResetOfPod,
}

impl Kind {
    /// Each with its share of the rate, in percent.
    const ALL: [(Self, u32); 7] = [
        (Self::Syn, 30),
        (Self::SynAndAck, 20),
        (Self::Ack, 15),
        (Self::Udp, 15),
        (Self::UdpOfPod, 10),
        (Self::Reset, 5),
        (Self::ResetOfPod, 5),
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Syn => "SYN",
            Self::SynAndAck => "SYN and blind ACK",
            Self::Ack => "ACK",
            Self::Udp => "UDP",
            Self::UdpOfPod => "UDP from a pod",
            Self::Reset => "RST at open connections",
            Self::ResetOfPod => "RST at open connections of a pod",
        }
    }

    const fn is_of_pod(self) -> bool {
        matches!(self, Self::UdpOfPod | Self::ResetOfPod)
    }
}

/// Result of a flood.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flooded {
    pub(crate) name: &'static str,
    /// Packets a second that it was to have.
    pub(crate) aim: u32,
    /// Packets that were sent.
    pub(crate) sent: u64,
    /// Packets that the sender's kernel refused.
    pub(crate) refused: u64,
    /// Duration of the flood.
    pub(crate) time: Duration,
}

/// The floods. Dropping them ends them.
pub(crate) struct Floods {
    begin: Instant,
    stop: Arc<AtomicBool>,
    running: Vec<Flood>,
}

/// One of them.
struct Flood {
    kind: Kind,
    aim: u32,
    sent: Arc<Sent>,
    thread: Option<JoinHandle<()>>,
}

/// Numbers of packets so far.
#[derive(Debug, Default)]
struct Sent {
    sent: AtomicU64,
    refused: AtomicU64,
}

/// The connections that resets are aimed at.
#[derive(Debug, Clone, Default)]
pub(crate) struct Targets {
    pub(crate) outside: Live,
    pub(crate) pod: Live,
}

impl Floods {
    /// Begins all of them, `rate` packets a second together.
    ///
    /// # Errors
    ///
    /// When a socket cannot be made.
    pub(crate) fn start(
        field: &Field,
        family: Family,
        rate: u32,
        seed: u64,
        targets: &Targets,
    ) -> Result<Self> {
        let mut floods = Self {
            begin: Instant::now(),
            stop: Arc::new(AtomicBool::new(false)),
            running: Vec::new(),
        };
        for (number, (kind, share)) in Kind::ALL.into_iter().enumerate() {
            let aim = u32::try_from(u64::from(rate) * u64::from(share) / 100).unwrap_or(rate);
            let (namespace, live) = if kind.is_of_pod() {
                (field.pod(), &targets.pod)
            } else {
                (field.outside(), &targets.outside)
            };
            let wire = wire(namespace, family)?;
            let sent = Arc::new(Sent::default());
            let thread = thread::spawn({
                let (stop, sent) = (Arc::clone(&floods.stop), Arc::clone(&sent));
                let sender = Sender {
                    kind,
                    family,
                    live: live.clone(),
                    random: Random::new(seed, 1000 + number as u64),
                    wire,
                };
                move || sender.run(aim, &stop, &sent)
            });
            floods.running.push(Flood {
                kind,
                aim,
                sent,
                thread: Some(thread),
            });
        }
        Ok(floods)
    }

    /// Ends them.
    ///
    /// # Errors
    ///
    /// When a sender panicked.
    pub(crate) fn stop(mut self) -> Result<Vec<Flooded>> {
        if !self.join() {
            bail!("a flood panicked");
        }
        let time = self.begin.elapsed();
        Ok(self
            .running
            .iter()
            .map(
                |Flood {
                     kind, aim, sent, ..
                 }| Flooded {
                    name: kind.name(),
                    aim: *aim,
                    sent: sent.sent.load(Ordering::Relaxed),
                    refused: sent.refused.load(Ordering::Relaxed),
                    time,
                },
            )
            .collect())
    }

    fn join(&mut self) -> bool {
        self.stop.store(true, Ordering::Relaxed);
        let threads = self
            .running
            .iter_mut()
            .filter_map(|flood| flood.thread.take());
        // All of them, also after one that panicked.
        threads.map(JoinHandle::join).filter(Result::is_err).count() == 0
    }
}

impl Drop for Floods {
    fn drop(&mut self) {
        self.join();
    }
}

fn wire(namespace: &Namespace, family: Family) -> Result<Wire> {
    namespace
        .enter(|| Wire::open(family.of(addresses::NODE)))
        .context("cannot make a raw socket")
}

/// One flood's own.
struct Sender {
    kind: Kind,
    family: Family,
    live: Live,
    random: Random,
    wire: Wire,
}

impl Sender {
    fn run(mut self, rate: u32, stop: &AtomicBool, sent: &Sent) {
        let mut pace = Pace::new(rate);
        // Less than nothing where two packets went and one was due.
        let mut due = 0;
        while !stop.load(Ordering::Relaxed) {
            due += i64::from(pace.wait());
            while due > 0 && !stop.load(Ordering::Relaxed) {
                due -= i64::from(self.send(sent).max(1));
            }
        }
    }

    /// Sends the next packets; returns how many.
    fn send(&mut self, sent: &Sent) -> u32 {
        let (packets, count) = self.next();
        for packet in packets.into_iter().take(count as usize) {
            match self.wire.send(&packet) {
                Ok(()) => sent.sent.fetch_add(1, Ordering::Relaxed),
                Err(_) => sent.refused.fetch_add(1, Ordering::Relaxed),
            };
        }
        count
    }

    /// The next packets, of which so many count.
    fn next(&mut self) -> ([Packet; 2], u32) {
        let Self {
            kind,
            family,
            live,
            random,
            wire: _,
        } = self;
        let family = *family;
        let nobody = (family.nobody(random), random.port()).into();
        let node_port = |service: Service| service.node_port(family);
        let packet = |what| Packet {
            from: nobody,
            to: node_port(Service::WEB),
            sequence: 0,
            what,
        };
        let random_sequence = |packet: Packet, random: &mut Random| Packet {
            sequence: random.word(),
            ..packet
        };
        match kind {
            Kind::Syn => {
                let mut syn = packet(What::Syn);
                // Some of them at a port that refuses.
                if random.below(8) == 0 {
                    syn.to = node_port(Service::CLOSED);
                }
                ([random_sequence(syn, random), syn], 1)
            }
            Kind::SynAndAck => {
                let syn = random_sequence(packet(What::Syn), random);
                let ack = Packet {
                    sequence: syn.sequence.wrapping_add(1),
                    what: What::Ack {
                        number: random.word(),
                    },
                    ..syn
                };
                ([syn, ack], 2)
            }
            Kind::Ack => {
                let ack = packet(What::Ack {
                    number: random.word(),
                });
                ([random_sequence(ack, random), ack], 1)
            }
            Kind::Udp => {
                let udp = Packet {
                    to: node_port(Service::UNANSWERED),
                    ..packet(What::Udp)
                };
                ([udp, udp], 1)
            }
            Kind::UdpOfPod => {
                let pod = family.of(addresses::POD_C);
                let udp = Packet {
                    from: (pod, random.port()).into(),
                    to: Service::UNANSWERED.cluster_ip(family),
                    ..packet(What::Udp)
                };
                ([udp, udp], 1)
            }
            Kind::Reset | Kind::ResetOfPod => {
                let reset = packet(What::Reset);
                let Some(target) = live.any(random) else {
                    return ([reset, reset], 0);
                };
                let reset = Packet {
                    from: target.client,
                    to: target.frontend,
                    ..random_sequence(reset, random)
                };
                ([reset, reset], 1)
            }
        }
    }
}
