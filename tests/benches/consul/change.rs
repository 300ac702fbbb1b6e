//! One instance changed, among many.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow, bail};
use shunt_tests::interrupt;

use super::{
    follower::Follower,
    world::{Change, Way, World},
};
use crate::{
    bench::Bench,
    machine::frontends::Frontends,
    measure::{Better, Bound, Limit, Sample, Study, sample},
};

/// Interval of the polls for a change.
const LOOK: Duration = Duration::from_micros(100);

/// Time after which a missing change is an error.
const LIMIT: Duration = Duration::from_mins(1);

/// Limit of an agent's sockets without TLS.
const SOCKETS: f64 = 64.0;

/// Limit of its share of a processor then while there is a change a second, in percent.
const BUSY: f64 = 25.0;

const SUBJECT: &str = "among 50,000 instances";

/// The subject of a change.
#[derive(Debug, Clone, Copy)]
pub(super) enum Changed {
    /// The status of an instance's check.
    Health,
    /// An instance's port. No check is another one.
    Port,
    /// The presence of an instance.
    Gone,
}

impl Changed {
    /// The study of it.
    pub(super) const fn study(self) -> &'static str {
        match self {
            Self::Health => "change",
            Self::Port => "registration",
            Self::Gone => "deregistration",
        }
    }

    fn make(self, world: &World, change: Change) -> Result<()> {
        match self {
            Self::Health => world.turn(change, ""),
            Self::Port => world.move_port(change),
            Self::Gone => world.vanish(change),
        }
    }
}

/// Changes, one after the other, and how long they may take.
struct Plan {
    changes: u32,
    /// From the beginning of one change to that of the next, if it is there by then.
    every: Duration,
    p50: Option<f64>,
    p99: f64,
}

impl Plan {
    const fn of(way: Way) -> Self {
        match way {
            Way::Https => Self {
                changes: 1_000,
                every: Duration::from_millis(10),
                p50: Some(5.0),
                p99: 50.0,
            },
            Way::Http => Self {
                changes: 20,
                every: Duration::from_secs(1),
                p50: None,
                p99: 3_000.0,
            },
        }
    }
}

/// Runs the study.
///
/// # Errors
///
/// If an agent does not do as it should.
pub(super) fn run(
    bench: &mut Bench,
    world: &World,
    follower: &Follower<'_>,
    frontends: &Frontends,
    changed: Changed,
) -> Result<()> {
    let (way, plan) = (follower.way, Plan::of(follower.way));
    let name = world.study(way, changed.study());
    if !bench.wants(&name) {
        return Ok(());
    }
    let at_most = |label, figure, most| Bound::figure(label, SUBJECT, figure, Limit::AtMost(most));
    let mut study = Study::new(
        name,
        "ms from before Consul is told of an instance until it is in the kernel",
        Better::Lower,
    )
    .slow()
    .rounds(bench.rounds(5, 1))
    .subject(SUBJECT, || {
        round(&plan, follower, || one(world, frontends, changed))
    })
    .bound(at_most("p99, ms", "p99", plan.p99));
    if let Some(p50) = plan.p50 {
        study = study.bound(at_most("p50, ms", "p50", p50));
    }
    if way == Way::Http {
        study = study
            .bound(at_most("sockets", "sockets", SOCKETS))
            .bound(at_most("% of one processor", "agent, %", BUSY));
    }
    bench.study(study)
}

/// Measures the times of changes, in milliseconds, and the agent's share of a processor meanwhile.
fn round(plan: &Plan, follower: &Follower<'_>, one: impl Fn() -> Result<Taken>) -> Result<Sample> {
    let before = follower.busy()?;
    let begin = Instant::now();
    let (mut times, mut after) = (Vec::new(), Vec::new());
    let mut sockets = 0;
    for _ in 0..plan.changes {
        interrupt::check()?;
        let next = Instant::now() + plan.every;
        let Taken {
            in_all,
            after_answer,
        } = one()?;
        times.push(in_all);
        after.push(after_answer);
        sockets = sockets.max(follower.sockets()?);
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    let busy = (follower.busy()? - before) / begin.elapsed().as_secs_f64() * 100.0;
    times.sort_by(f64::total_cmp);
    after.sort_by(f64::total_cmp);
    let at = |times: &[f64], hundredth: usize| times[times.len() * hundredth / 100];
    Ok(sample([
        ("p50", at(&times, 50)),
        ("p99", at(&times, 99)),
        ("p50 after Consul's answer", at(&after, 50)),
        ("p99 after Consul's answer", at(&after, 99)),
        ("agent, %", busy),
        ("sockets", sockets as f64),
    ]))
}

/// Times of a change, in milliseconds.
struct Taken {
    /// From before the write to Consul.
    in_all: f64,
    /// Of it, after Consul's answer to the write; 0 if it was in the kernel sooner.
    after_answer: f64,
}

/// Makes one change, and waits until it is in the kernel.
fn one(world: &World, frontends: &Frontends, changed: Changed) -> Result<Taken> {
    let change = world.next();
    let cell = || frontends.cell(change.service);
    let before = cell();
    let begin = Instant::now();
    let (answered, there) = thread::scope(|scope| {
        let told = scope.spawn(|| changed.make(world, change).map(|()| Instant::now()));
        while cell() == before {
            if begin.elapsed() > LIMIT {
                bail!("service {} stays as it was", change.service);
            }
            thread::sleep(LOOK);
        }
        let there = Instant::now();
        let told = told.join().map_err(|_| anyhow!("a change has panicked"))?;
        Ok((told?, there))
    })?;
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    Ok(Taken {
        in_all: milliseconds(there - begin),
        after_answer: milliseconds(there.saturating_duration_since(answered)),
    })
}
