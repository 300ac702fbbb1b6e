//! The same Resync once more.

use std::cell::RefCell;

use anyhow::Result;

use super::{
    agent::{Subject, milliseconds},
    world::{LARGE, WIDE},
};
use crate::{
    bench::Bench,
    measure::{Better, Bound, Limit, Study, sample},
};

const NAME: &str = "control/resync";

/// Limit of the time at 250,000 backends, in milliseconds.
const LIMIT: f64 = 500.0;

/// Runs the study.
///
/// # Errors
///
/// If an agent does not do as it should.
pub(super) fn run(bench: &mut Bench) -> Result<()> {
    if !bench.wants(NAME) {
        return Ok(());
    }
    let mut study =
        Study::new(NAME, "an identical Resync", Better::Lower).rounds(bench.rounds(9, 5));
    for world in [WIDE, LARGE] {
        let event = world.resync();
        let mut subject = Subject::start(&bench.options().agent, &[])?;
        subject.apply(&event)?;
        let subject = RefCell::new(subject);
        study = study.subject(world.name(), move || {
            let mut subject = subject.borrow_mut();
            let taken = subject.apply(&event)?;
            subject.check(world.all_backends())?;
            Ok(sample([
                ("ms", milliseconds(taken.time)),
                ("writes", taken.writes as f64),
            ]))
        });
    }
    let large = &LARGE.name();
    bench.study(
        study
            .bound(Bound::figure(
                "250,000 backends, ms",
                large,
                "ms",
                Limit::AtMost(LIMIT),
            ))
            .bound(Bound::figure(
                "250,000 backends, writes",
                large,
                "writes",
                Limit::AtMost(0.0),
            )),
    )
}
