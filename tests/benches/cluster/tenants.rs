//! A Service's change beside the worst objects that the authors of other namespaces may write.

use std::{
    net::{IpAddr, Ipv4Addr},
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use shunt_tests::{
    interrupt,
    route_objects::{SERVICE_PROFILES, TRAFFIC_SPLITS, definition},
    tenants::{TenantSizes, honest_ip, honest_service, honest_slices, worst_objects},
};

use super::{follower::Follower, world::World};
use crate::{
    bench::Bench,
    machine::{
        frontends::{Expected, Frontends},
        process,
    },
    measure::{Better, Bound, Limit, Sample, Study, sample},
};

const NAME: &str = "cluster/tenants";

const SIZES: TenantSizes = TenantSizes::FULL;

/// Time in which each tenant changes all of its objects once.
const TURN: Duration = Duration::from_secs(10);

/// Time after the tenants' first objects that does not count.
const SETTLING: Duration = Duration::from_mins(1);

/// Duration of the measured changes, alone and beside tenants.
const TIME: Duration = Duration::from_mins(1);

/// Pause between two changes.
const PAUSE: Duration = Duration::from_millis(20);

/// Interval at which the server forgets earlier changes.
const FORGET: Duration = Duration::from_secs(1);

/// Limit of the 99th percentile, in milliseconds.
const MOST: f64 = 50.0;

/// Limit of the lines that the log has in a minute.
const LINES: f64 = 100.0;

/// Limit of the memory, as a multiple of that without tenants.
const MEMORY: f64 = 1.5;

/// The honest Services in the kernel.
const HONEST: Expected = Expected {
    services: SIZES.honest,
    backends: 1,
    address: ipv4,
    port: 80,
    limit: Duration::from_mins(2),
};

/// Runs the study.
///
/// # Errors
///
/// If an agent does not do as it should.
pub(super) fn run(bench: &mut Bench) -> Result<()> {
    const SUBJECT: &str = "among 100 tenants";
    if !bench.wants(NAME) {
        return Ok(());
    }
    let binary = bench.options().agent.clone();
    let bound =
        |label: &str, figure, limit| Bound::figure(label, SUBJECT, figure, Limit::AtMost(limit));
    bench.study(
        Study::new(
            NAME,
            "ms from a Service's change at the API server until it is in the kernel",
            Better::Lower,
        )
        .slow()
        .rounds(bench.rounds(3, 1))
        .subject(SUBJECT, || {
            let world = World::empty()?;
            for number in 0..SIZES.honest {
                world.server.put(honest_service(number));
                for slice in honest_slices(number, 0) {
                    world.server.put(slice);
                }
            }
            world.server.forget_known();
            let (follower, kernel, _) = Follower::complete(&binary, &world, HONEST)?;
            Cluster::new(&world, &kernel).round(&follower)
        })
        .bound(bound("p99, ms", "p99", MOST))
        .bound(bound("lines of the log in a minute", "lines", LINES))
        .bound(bound("memory over that without tenants", "memory", MEMORY)),
    )
}

/// Returns the ClusterIP of an honest Service.
fn ipv4(number: u32) -> Ipv4Addr {
    match honest_ip(number) {
        IpAddr::V4(ip) => ip,
        IpAddr::V6(_) => unreachable!("the Service's first address is of IPv4"),
    }
}

/// A cluster in which honest Services and tenants' objects change.
struct Cluster<'a> {
    world: &'a World,
    kernel: &'a Frontends,
    /// Number of changes of honest Services.
    changes: u32,
    /// Number of changes of tenants.
    turns: u32,
    forgotten: Instant,
}

impl<'a> Cluster<'a> {
    fn new(world: &'a World, kernel: &'a Frontends) -> Self {
        Self {
            world,
            kernel,
            changes: 0,
            turns: 0,
            forgotten: Instant::now(),
        }
    }

    /// Measures changes alone, and beside tenants.
    fn round(mut self, follower: &Follower) -> Result<Sample> {
        let alone = self.times(TIME, false)?;
        let memory_alone = follower.resident()?;
        for kind in [TRAFFIC_SPLITS, SERVICE_PROFILES] {
            self.world.server.put(definition(kind, &["v1alpha2"]));
        }
        for _ in 0..SIZES.tenants {
            self.change_tenant()?;
        }
        self.times(SETTLING, true)?;
        let lines = follower.log_lines();
        let beside = self.times(TIME, true)?;
        let lines = (follower.log_lines() - lines) as f64 / TIME.as_secs_f64() * 60.0;
        let memory = follower.resident()?;
        let peak = process::memory(follower.pid(), "VmHWM")?;
        let at = |times: &[f64], hundredth: usize| times[times.len() * hundredth / 100];
        let over = |bytes: u64| bytes as f64 / memory_alone as f64;
        Ok(sample([
            ("p50", at(&beside, 50)),
            ("p99", at(&beside, 99)),
            ("alone, p50", at(&alone, 50)),
            ("alone, p99", at(&alone, 99)),
            ("lines", lines),
            ("memory", over(memory)),
            ("peak of memory", over(peak)),
        ]))
    }

    /// Changes one honest Service after the other for so long, and the objects of tenants if they take part.
    /// Returns the times of the changes in milliseconds, sorted.
    fn times(&mut self, time: Duration, with_tenants: bool) -> Result<Vec<f64>> {
        let begin = Instant::now();
        let turn = TURN / SIZES.tenants;
        let mut next_turn = begin;
        let mut times = Vec::new();
        while begin.elapsed() < time {
            if with_tenants && Instant::now() >= next_turn {
                self.change_tenant()?;
                next_turn += turn;
            }
            times.push(self.change_honest()?.as_secs_f64() * 1e3);
            thread::sleep(PAUSE);
        }
        times.sort_by(f64::total_cmp);
        Ok(times)
    }

    /// Gives the next honest Service another endpoint. Returns the time until that is in the kernel.
    fn change_honest(&mut self) -> Result<Duration> {
        interrupt::check()?;
        let (before, number) = (self.changes / SIZES.honest, self.changes % SIZES.honest);
        self.changes += 1;
        let slices = honest_slices(number, before + 1);
        let before = self.kernel.cell(number);
        let begin = Instant::now();
        for slice in slices {
            self.world.server.put(slice);
        }
        let there = self.kernel.await_other(number, before)?;
        Ok(there.saturating_duration_since(begin))
    }

    /// Has the next tenant change all of its objects.
    fn change_tenant(&mut self) -> Result<()> {
        interrupt::check()?;
        let (round, tenant) = (self.turns / SIZES.tenants, self.turns % SIZES.tenants);
        self.turns += 1;
        for object in worst_objects(tenant, &SIZES, round) {
            self.world.server.put(object);
        }
        if self.forgotten.elapsed() >= FORGET {
            self.world.server.forget_known();
            self.forgotten = Instant::now();
        }
        Ok(())
    }
}
