//! Time and memory of requests that look at the agent, through its socket and the kernel's tables, and the time of
//! events beside them.

use std::{
    cell::RefCell,
    net::IpAddr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow, ensure};
use shunt_api::proto::{
    ConntrackRequest, DumpRequest, LookupRequest, LookupResponse, ServicesRequest, StatusRequest,
    inspection_client::InspectionClient,
};
use shunt_model::Protocol;
use tokio::{
    runtime::{Builder, Runtime},
    time::sleep,
};
use tonic::{
    Streaming,
    transport::{Channel, Endpoint},
};

use super::{
    agent::{Subject, milliseconds},
    world::{World, cluster_ip},
};
use crate::{
    bench::Bench,
    measure::{Better, Bound, Limit, Sample, Study, sample},
};

const NAME: &str = "control/inspection";

/// 1,000,000 backends.
const HUGE: World = World {
    services: 100_000,
    backends: 10,
    node_ports: false,
};

/// The services at which the smaller limit of `top` is.
const SMALL: World = World {
    services: 5_000,
    backends: 10,
    node_ports: false,
};

/// Tables with room for all of it, and for what is replaced.
const FLAGS: [&str; 8] = [
    "--ip-families",
    "ipv4",
    "--max-frontends",
    "131072",
    "--max-slots",
    "2097152",
    "--max-backends",
    "1310720",
];

/// Limit of a lookup of one ClusterIP with a port, in milliseconds.
const LOOKUP: f64 = 2.0;

/// Limit of the time that an event waits beside looks, in milliseconds: p99 beside them, over p50 alone.
const WAIT: f64 = 1.0;

/// Limit of the memory after all looks, relative to that before.
const MEMORY: f64 = 1.2;

/// Limits of the processor time that each `top` costs the agent, in percent.
const TOP_SMALL: f64 = 2.0;
const TOP_HUGE: f64 = 10.0;

/// Number of lookups, of events, and of rounds of all looks.
const LOOKUPS: u32 = 500;
const EVENTS: u32 = 1000;
const ROUNDS: u32 = 50;

/// Number of screens that follow the agent at once, how often each looks, and for how long they are measured.
const TOPS: u32 = 3;
const INTERVAL: Duration = Duration::from_secs(1);
const WATCHED: Duration = Duration::from_secs(20);

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
    let rounds = if bench.options().quick { 5 } else { ROUNDS };
    let looked = RefCell::new(Looked::start(&binary, HUGE)?);
    bench.study(
        Study::new(NAME, "looks at 100,000 services of 10", Better::Lower)
            .slow()
            .rounds(bench.rounds(5, 1))
            .subject("a lookup of a ClusterIP", || {
                looked
                    .borrow_mut()
                    .lookups(|number| cluster_ip(number).into(), Some(80))
            })
            .subject("a lookup of a backend", || {
                looked
                    .borrow_mut()
                    .lookups(|number| World::backend(number * 10).into(), None)
            })
            .subject("an event beside all looks", || looked.borrow_mut().events())
            .subject("memory after all looks", || {
                looked.borrow_mut().memory(rounds)
            })
            .subject("a top", || looked.borrow_mut().tops())
            .bound(Bound::figure(
                "lookup of a ClusterIP, p50, ms",
                "a lookup of a ClusterIP",
                "p50",
                Limit::AtMost(LOOKUP),
            ))
            .bound(Bound::figure(
                "an event's wait beside looks, p99, ms",
                "an event beside all looks",
                "wait, p99",
                Limit::AtMost(WAIT),
            ))
            .bound(Bound::figure(
                "memory after looks, relative to before",
                "memory after all looks",
                "ratio",
                Limit::AtMost(MEMORY),
            ))
            .bound(Bound::figure(
                "each top, % of a processor",
                "a top",
                "% of a processor",
                Limit::AtMost(TOP_HUGE),
            )),
    )?;
    drop(looked);
    let looked = RefCell::new(Looked::start(&binary, SMALL)?);
    bench.study(
        Study::new(
            format!("{NAME}/small"),
            "looks at 5,000 services of 10",
            Better::Lower,
        )
        .slow()
        .rounds(bench.rounds(5, 1))
        .subject("a top", || looked.borrow_mut().tops())
        .bound(Bound::figure(
            "each top, % of a processor",
            "a top",
            "% of a processor",
            Limit::AtMost(TOP_SMALL),
        )),
    )
}

/// An agent that is looked at.
struct Looked {
    subject: Subject,
    world: World,
    runtime: Runtime,
    client: Client,
    changes: u32,
}

impl Looked {
    fn start(binary: &Path, world: World) -> Result<Self> {
        let mut subject = Subject::start(binary, &FLAGS)?;
        subject.apply(&world.resync())?;
        subject.check(world.all_backends())?;
        let runtime = runtime()?;
        let client = runtime.block_on(Client::connect(&place(&subject)))?;
        Ok(Self {
            subject,
            world,
            runtime,
            client,
            changes: 0,
        })
    }

    fn lookups(&mut self, address: impl Fn(u32) -> IpAddr, port: Option<u32>) -> Result<Sample> {
        let mut times = Vec::new();
        for number in 0..LOOKUPS {
            let address = address(self.world.changed(number));
            let begin = Instant::now();
            let found = self.runtime.block_on(self.client.lookup(address, port))?;
            times.push(milliseconds(begin.elapsed()));
            let frontends = found.frontends.len() + found.backend_of.len();
            ensure!(frontends == 1, "{address}: {frontends} frontends");
        }
        Ok(percentiles(times))
    }

    /// The time of events alone, and beside loops of looks of every kind.
    fn events(&mut self) -> Result<Sample> {
        let alone = self.change()?;
        let looks = Looks::start(&place(&self.subject), self.world);
        let beside = self.change();
        let looks = looks.stop()?;
        let beside = beside?;
        let at = |times: &[f64], hundredth: usize| times[times.len() * hundredth / 100];
        Ok(sample([
            ("alone, p50", at(&alone, 50)),
            ("alone, p99", at(&alone, 99)),
            ("beside, p50", at(&beside, 50)),
            ("beside, p99", at(&beside, 99)),
            ("wait, p99", at(&beside, 99) - at(&alone, 50)),
            ("looks", looks as f64),
        ]))
    }

    /// Returns the times of changes of one service each, sorted, in milliseconds.
    fn change(&mut self) -> Result<Vec<f64>> {
        let mut times = Vec::new();
        for _ in 0..EVENTS {
            self.changes += 1;
            let event = self.world.change(self.changes);
            times.push(milliseconds(self.subject.apply(&event)?.time));
        }
        times.sort_by(f64::total_cmp);
        Ok(times)
    }

    /// The agent's own memory before and after so many rounds of all looks.
    fn memory(&mut self, rounds: u32) -> Result<Sample> {
        let before = self.subject.settled()?;
        for round in 0..rounds {
            let client = &mut self.client;
            self.runtime
                .block_on(client.look(cluster_ip(round).into()))?;
        }
        let after = self.subject.settled()?;
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        Ok(sample([
            ("before, MB", megabytes(before)),
            ("after, MB", megabytes(after)),
            ("ratio", after as f64 / before as f64),
        ]))
    }

    /// The processor time that each of several screens costs the agent.
    fn tops(&mut self) -> Result<Sample> {
        let place = place(&self.subject);
        let before = self.subject.processor_seconds()?;
        let begin = Instant::now();
        let looks = self.runtime.block_on(async {
            let tops = (0..TOPS).map(|_| tokio::spawn(follow(place.clone())));
            let mut looks = 0;
            for top in tops.collect::<Vec<_>>() {
                looks += top.await??;
            }
            anyhow::Ok(looks)
        })?;
        let used = self.subject.processor_seconds()? - before;
        let share = used / begin.elapsed().as_secs_f64() / f64::from(TOPS);
        Ok(sample([
            ("% of a processor", share * 100.0),
            (
                "looks a second",
                f64::from(looks) / begin.elapsed().as_secs_f64(),
            ),
        ]))
    }
}

fn runtime() -> Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

fn place(subject: &Subject) -> String {
    format!("unix:{}", subject.socket().display())
}

fn percentiles(mut times: Vec<f64>) -> Sample {
    times.sort_by(f64::total_cmp);
    let at = |hundredth: usize| times[times.len() * hundredth / 100];
    sample([("p50", at(50)), ("p99", at(99))])
}

/// Looks as `shunt top` does, for a while. Returns how often.
async fn follow(place: String) -> Result<u32> {
    let mut client = Client::connect(&place).await?;
    let end = Instant::now() + WATCHED;
    let mut looks = 0;
    while Instant::now() < end {
        client.top().await?;
        looks += 1;
        sleep(INTERVAL).await;
    }
    Ok(looks)
}

/// A client of the agent's socket.
struct Client(InspectionClient<Channel>);

impl Client {
    async fn connect(place: &str) -> Result<Self> {
        let channel = Endpoint::from_shared(place.to_owned())?.connect().await?;
        Ok(Self(InspectionClient::new(channel)))
    }

    async fn lookup(&mut self, address: IpAddr, port: Option<u32>) -> Result<LookupResponse> {
        let request = LookupRequest {
            ip: address.to_string(),
            port,
            protocol: Protocol::Tcp.number().into(),
            service: None,
        };
        let mut pieces = self.0.lookup(request).await?.into_inner();
        pieces.message().await?.context("no answer")
    }

    /// Returns the number of frontends where kernel and events differ.
    async fn differences(&mut self) -> Result<usize> {
        let status = self.0.status(StatusRequest { brief: false }).await?;
        Ok(status.into_inner().differences.len())
    }

    async fn services(&mut self) -> Result<()> {
        let request = ServicesRequest { filter: None };
        drain(self.0.services(request).await?.into_inner()).await
    }

    async fn dump(&mut self) -> Result<()> {
        drain(self.0.dump(DumpRequest {}).await?.into_inner()).await
    }

    async fn top(&mut self) -> Result<()> {
        self.0.status(StatusRequest { brief: true }).await?;
        self.services().await?;
        let request = ConntrackRequest { filter: None };
        drain(self.0.conntrack(request).await?.into_inner()).await
    }

    /// Looks once in every way.
    async fn look(&mut self, address: IpAddr) -> Result<()> {
        self.lookup(address, Some(80)).await?;
        let differences = self.differences().await?;
        ensure!(differences == 0, "{differences} frontends differ");
        self.services().await?;
        self.dump().await?;
        self.top().await
    }
}

async fn drain<T>(mut pieces: Streaming<T>) -> Result<()> {
    while pieces.message().await?.is_some() {}
    Ok(())
}

/// Clients that look all the time, each in a thread of its own.
struct Looks {
    is_over: Arc<AtomicBool>,
    looks: Arc<AtomicU64>,
    threads: Vec<JoinHandle<Result<()>>>,
}

/// A way of looking.
#[derive(Debug, Clone, Copy)]
enum Look {
    Lookup,
    Status,
    Dump,
    Top,
}

impl Looks {
    fn start(place: &str, world: World) -> Self {
        let mut started = Self {
            is_over: Arc::default(),
            looks: Arc::default(),
            threads: Vec::new(),
        };
        let tops = (0..TOPS).map(|_| Look::Top);
        // A trace begins with a dump.
        for look in [Look::Lookup, Look::Status, Look::Dump]
            .into_iter()
            .chain(tops)
        {
            let (is_over, looks) = (Arc::clone(&started.is_over), Arc::clone(&started.looks));
            let place = place.to_owned();
            started.threads.push(thread::spawn(move || {
                runtime()?.block_on(async {
                    let mut client = Client::connect(&place).await?;
                    let mut number = 0;
                    while !is_over.load(Ordering::Relaxed) {
                        number += 1;
                        match look {
                            Look::Lookup => {
                                let address = cluster_ip(world.changed(number)).into();
                                client.lookup(address, Some(80)).await?;
                            }
                            Look::Status => {
                                let differences = client.differences().await?;
                                ensure!(differences == 0, "an event is shown as a difference");
                            }
                            Look::Dump => client.dump().await?,
                            Look::Top => {
                                client.top().await?;
                                sleep(INTERVAL).await;
                            }
                        }
                        looks.fetch_add(1, Ordering::Relaxed);
                    }
                    anyhow::Ok(())
                })
            }));
        }
        started
    }

    /// Ends them. Returns the number of looks.
    fn stop(self) -> Result<u64> {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().map_err(|_| anyhow!("a client panicked"))??;
        }
        Ok(self.looks.load(Ordering::Relaxed))
    }
}
