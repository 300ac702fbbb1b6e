//! A node joins the cluster: each NodePort service has one more frontend.

use std::cell::RefCell;

use anyhow::{Result, ensure};

use super::{
    agent::{Subject, milliseconds},
    world::World,
};
use crate::{
    bench::Bench,
    measure::{Better, Study, sample},
};

const NAME: &str = "control/node";

/// The services of the study.
const WORLD: World = World {
    services: 2_000,
    backends: 10,
    node_ports: true,
};

/// Runs the study.
///
/// # Errors
///
/// If an agent does not do as it should.
pub(super) fn run(bench: &mut Bench) -> Result<()> {
    if !bench.wants(NAME) {
        return Ok(());
    }
    let mut subject = Subject::start(&bench.options().agent, &[])?;
    subject.apply(&WORLD.resync())?;
    let subject = &RefCell::new(subject);
    let set = |with_new: bool| {
        let event = World::nodes(with_new);
        move || {
            let mut subject = subject.borrow_mut();
            let begin = World::nodes(!with_new);
            subject.apply(&begin)?;
            let taken = subject.apply(&event)?;
            ensure!(taken.writes > 0, "a node led to no write");
            Ok(sample([
                ("ms", milliseconds(taken.time)),
                ("writes", taken.writes as f64),
            ]))
        }
    };
    bench.study(
        Study::new(NAME, "2,000 NodePort services", Better::Lower)
            .rounds(bench.rounds(9, 5))
            .subject("a node joins", set(true))
            .subject("a node leaves", set(false)),
    )?;
    subject.borrow().check(WORLD.all_backends())
}
