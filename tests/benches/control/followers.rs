//! Time from a change to the last of many followers, and their cost.

use std::{
    cell::RefCell,
    net::IpAddr,
    num::NonZeroU16,
    path::Path,
    sync::mpsc::{self, Receiver, Sender},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow, ensure};
use shunt_api::proto::{WatchRequest, inspection_client::InspectionClient};
use shunt_model::{Protocol, Query, Renderer, decode};
use shunt_runtime::Followers;
use tokio::{runtime::Builder, task::JoinSet};
use tonic::transport::{Channel, Endpoint};

use super::{
    agent::{Subject, milliseconds},
    lookup::told,
    world::{LARGE, cluster_ip},
};
use crate::{
    bench::Bench,
    measure::{Better, Bound, Limit, Sample, Study, sample},
};

const NAME: &str = "control/followers";

/// Limits of the time from a change to the last of them, in milliseconds: over gRPC, and inside the agent.
const OVER_GRPC: f64 = 250.0;
const INSIDE: f64 = 30.0;

/// Limit of the 99th percentile of events meanwhile, in microseconds.
const EVENT: f64 = 1000.0;

/// Number of events meanwhile, and of those among them that concern what is followed.
const EVENTS: u32 = 1000;
const FOLLOWED: u32 = 50;

/// Number of streams that share a connection.
const STREAMS: usize = 100;

/// Time without any answer that counts as an error.
const SILENCE: Duration = Duration::from_mins(1);

/// The followers of a study, and the services that they follow.
#[derive(Debug, Clone, Copy)]
struct Crowd {
    followers: usize,
    /// Number of services that they follow, one after the other.
    services: u32,
}

const ONE: Crowd = Crowd {
    followers: 10_000,
    services: 1,
};
const EACH: Crowd = Crowd {
    followers: 1_000,
    services: 1_000,
};

/// Runs the studies.
///
/// # Errors
///
/// If an agent does not do as it should.
pub(super) fn run(bench: &mut Bench) -> Result<()> {
    if !bench.wants(NAME) {
        return Ok(());
    }
    let binary = bench.options().agent.clone();
    let scale = if bench.options().quick { 10 } else { 1 };
    for crowd in [ONE, EACH].map(|crowd| crowd.scaled(scale)) {
        let name = crowd.name();
        let outside = RefCell::new(Outside::start(&binary, crowd)?);
        let inside = RefCell::new(Inside::start(crowd)?);
        let study = Study::new(format!("{NAME}/{name}"), "who follow", Better::Lower);
        bench.study(
            study
                .slow()
                .rounds(bench.rounds(7, 3))
                .subject("over gRPC", || outside.borrow_mut().round())
                .subject("inside the agent", || inside.borrow_mut().round())
                .bound(Bound::figure(
                    "the last over gRPC, ms",
                    "over gRPC",
                    "last, ms",
                    Limit::AtMost(OVER_GRPC),
                ))
                .bound(Bound::figure(
                    "p99 of events meanwhile, us",
                    "over gRPC",
                    "event p99, us",
                    Limit::AtMost(EVENT),
                ))
                .bound(Bound::figure(
                    "the last inside, ms",
                    "inside the agent",
                    "last, ms",
                    Limit::AtMost(INSIDE),
                )),
        )?;
    }
    Ok(())
}

impl Crowd {
    fn scaled(self, scale: usize) -> Self {
        let Self {
            followers,
            services,
        } = self;
        Self {
            followers: followers / scale,
            services: services.div_ceil(scale as u32),
        }
    }

    fn name(self) -> String {
        let Self {
            followers,
            services,
        } = self;
        format!("{followers} of {services}")
    }

    /// The event that changes all that is followed.
    fn change(self, number: u32) -> String {
        LARGE.change_first(self.services, number)
    }

    /// The address that a follower follows.
    fn address(self, follower: usize) -> IpAddr {
        cluster_ip(follower as u32 % self.services).into()
    }
}

/// Returns the time until the last of the followers was notified, and each of them once.
fn last_of(told: &Receiver<Instant>, count: usize, begin: Instant) -> Result<Duration> {
    let mut last = Duration::ZERO;
    for number in 0..count {
        let told = told.recv_timeout(SILENCE);
        let told = told.with_context(|| format!("{number} of {count} were told"))?;
        last = last.max(told.duration_since(begin));
    }
    Ok(last)
}

/// The real agent, and clients of it in a thread of this process.
struct Outside {
    subject: Subject,
    crowd: Crowd,
    changes: u32,
    told: Receiver<Instant>,
    /// Of the agent's memory, for each who follows.
    bytes: f64,
}

impl Outside {
    fn start(binary: &Path, crowd: Crowd) -> Result<Self> {
        let mut subject = Subject::start(binary, &[])?;
        subject.apply(&LARGE.resync())?;
        let before = subject.settled()?;
        let (sender, told) = mpsc::channel();
        let socket = format!("unix:{}", subject.socket().display());
        thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build();
            let followed = runtime.map(|runtime| runtime.block_on(follow(&socket, crowd, sender)));
            // They are cut off when the agent ends, after the last round.
            drop(followed);
        });
        // The first message of each.
        last_of(&told, crowd.followers, Instant::now())?;
        let bytes = subject.settled()?.saturating_sub(before);
        Ok(Self {
            subject,
            crowd,
            changes: 0,
            told,
            bytes: bytes as f64 / crowd.followers as f64,
        })
    }

    fn round(&mut self) -> Result<Sample> {
        let Self {
            subject,
            crowd,
            changes,
            told,
            bytes,
        } = self;
        *changes += 1;
        let processor = subject.processor_seconds()?;
        let begin = Instant::now();
        subject.apply(&crowd.change(*changes))?;
        let last = last_of(told, crowd.followers, begin)?;
        let processor = subject.processor_seconds()? - processor;
        let mut times = Vec::new();
        for event in 0..EVENTS {
            *changes += 1;
            let line = if event % FOLLOWED == 0 && crowd.services == 1 {
                crowd.change(*changes)
            } else {
                // One without a follower.
                let service = crowd.services + *changes * 7 % (LARGE.services - crowd.services);
                LARGE.change_of(service, *changes)
            };
            times.push(subject.apply(&line)?.time.as_secs_f64() * 1e6);
        }
        times.sort_by(f64::total_cmp);
        // A follower that was busy with one change has the next ones in one message.
        while told.recv_timeout(Duration::from_secs(2)).is_ok() {}
        Ok(sample([
            ("last, ms", milliseconds(last)),
            ("processor, ms", processor * 1e3),
            ("event p99, us", times[times.len() * 99 / 100]),
            ("bytes each", *bytes),
        ]))
    }
}

/// Follows as the crowd does, and sends the time of each notification.
async fn follow(socket: &str, crowd: Crowd, told: Sender<Instant>) -> Result<()> {
    let mut following = JoinSet::new();
    let mut channel = None::<Channel>;
    for number in 0..crowd.followers {
        if number % STREAMS == 0 {
            let endpoint = Endpoint::from_shared(socket.to_owned())?;
            channel = Some(endpoint.connect().await?);
        }
        let channel = channel.clone().context("connected")?;
        let request = WatchRequest {
            ip: crowd.address(number).to_string(),
            port: Some(80),
            protocol: Protocol::Tcp.number().into(),
            service: None,
        };
        let mut changes = InspectionClient::new(channel)
            .watch(request)
            .await?
            .into_inner();
        let told = told.clone();
        following.spawn(async move {
            while let Ok(Some(_)) = changes.message().await {
                if told.send(Instant::now()).is_err() {
                    return;
                }
            }
        });
    }
    while following.join_next().await.is_some() {}
    Ok(())
}

/// The agent's own part: a renderer and those who follow it, without gRPC or tables.
struct Inside {
    renderer: Renderer,
    followers: Followers,
    crowd: Crowd,
    changes: u32,
    told: Receiver<Instant>,
}

impl Inside {
    fn start(crowd: Crowd) -> Result<Self> {
        let renderer = told(&LARGE.resync())?;
        let mut followers = Followers::default();
        let mut following = Vec::new();
        for number in 0..crowd.followers {
            let port = NonZeroU16::new(80);
            let query = Query::address(crowd.address(number), port, Some(Protocol::Tcp));
            following.push(followers.follow(&query, &renderer)?);
        }
        let (sender, told) = mpsc::channel();
        thread::spawn(move || {
            let runtime = Builder::new_current_thread().build()?;
            runtime.block_on(async {
                let mut tasks = JoinSet::new();
                for mut following in following {
                    let sender = sender.clone();
                    tasks.spawn(async move {
                        while following.changed().await.is_ok() {
                            if sender.send(Instant::now()).is_err() {
                                return;
                            }
                        }
                    });
                }
                while tasks.join_next().await.is_some() {}
            });
            std::io::Result::Ok(())
        });
        Ok(Self {
            renderer,
            followers,
            crowd,
            changes: 0,
            told,
        })
    }

    fn round(&mut self) -> Result<Sample> {
        let Self {
            renderer,
            followers,
            crowd,
            changes,
            told,
        } = self;
        *changes += 1;
        let event = decode(&crowd.change(*changes)).map_err(|error| anyhow!("{error}"))?;
        let begin = Instant::now();
        let plan = renderer.plan(event)?;
        let concerned = followers.concerned(&plan, renderer);
        renderer.commit(plan);
        followers.update(concerned, renderer);
        let event = begin.elapsed();
        let last = last_of(told, crowd.followers, begin)?;
        ensure!(told.try_recv().is_err(), "somebody was told twice");
        Ok(sample([
            ("last, ms", milliseconds(last)),
            ("the event, us", event.as_secs_f64() * 1e6),
        ]))
    }
}
