//! One backend changed, among many.

use std::{cell::RefCell, path::Path};

use anyhow::{Result, ensure};

use super::{
    agent::Subject,
    world::{LARGE, WIDE, World},
};
use crate::{
    bench::Bench,
    measure::{Better, Bound, Limit, Sample, Study, sample},
};

const NAME: &str = "control/change";

/// Number of changes in a round.
const CHANGES: u32 = 1000;

/// Limit of the 99th percentile, in microseconds.
const LIMIT: f64 = 1000.0;

/// An agent with all services of a world, and how often one of them was changed.
pub(super) struct Changing {
    subject: Subject,
    world: World,
    changes: u32,
}

/// Runs the study.
///
/// # Errors
///
/// If an agent does not do as it should.
pub(super) fn run(bench: &mut Bench) -> Result<()> {
    if !bench.wants(NAME) {
        return Ok(());
    }
    let binary = bench.options().agent.clone();
    let small = World {
        services: 1,
        ..WIDE
    };
    let mut subjects = Vec::new();
    for world in [small, WIDE, LARGE] {
        subjects.push((world, RefCell::new(Changing::start(&binary, world)?)));
    }
    let mut study =
        Study::new(NAME, "us a change of one backend", Better::Lower).rounds(bench.rounds(7, 3));
    for (world, changing) in &subjects {
        study = study.subject(world.name(), || changing.borrow_mut().round());
    }
    let large = &LARGE.name();
    bench.study(study.bound(Bound::figure(
        "p99 among 250,000 backends, us",
        large,
        "p99",
        Limit::AtMost(LIMIT),
    )))?;
    for (world, changing) in &subjects {
        changing.borrow().subject.check(world.all_backends())?;
    }
    Ok(())
}

impl Changing {
    /// Starts an agent, and sends it all services.
    ///
    /// # Errors
    ///
    /// If it does not do as it should.
    pub(super) fn start(binary: &Path, world: World) -> Result<Self> {
        let mut subject = Subject::start(binary, &[])?;
        subject.apply(&world.resync())?;
        Ok(Self {
            subject,
            world,
            changes: 0,
        })
    }

    /// Measures the time of each of so many changes, one after the other, in microseconds.
    ///
    /// # Errors
    ///
    /// If one is refused, or leads to nothing.
    pub(super) fn times(&mut self, count: u32) -> Result<Vec<f64>> {
        let Self {
            subject,
            world,
            changes,
        } = self;
        (0..count)
            .map(|_| {
                *changes += 1;
                let taken = subject.apply(&world.change(*changes))?;
                ensure!(taken.writes > 0, "a change led to no write");
                Ok(taken.time.as_secs_f64() * 1e6)
            })
            .collect()
    }

    fn round(&mut self) -> Result<Sample> {
        let mut times = self.times(CHANGES)?;
        times.sort_by(f64::total_cmp);
        let at = |hundredth: usize| times[times.len() * hundredth / 100];
        Ok(sample([("p50", at(50)), ("p99", at(99))]))
    }
}
