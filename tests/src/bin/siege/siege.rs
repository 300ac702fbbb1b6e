//! A siege: everything at once, for a time.

use std::{
    io::{self, Write as _},
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use shunt_tests::interrupt;

use crate::{
    cpu::Processors,
    disturbance::Disturbance,
    field::{Family, Field},
    flood::{Floods, Targets},
    honest::Clients,
    report::Report,
    services::Service,
    translator::{Kind, Translator},
};

/// Time without floods that clients have at first.
const PEACE: Duration = Duration::from_secs(1);

/// Interval of the reports on the progress.
const NEWS: Duration = Duration::from_secs(5);

/// Interval of the checks for what is due.
const GLANCE: Duration = Duration::from_millis(10);

/// Parameters of a siege.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) time: Duration,
    /// Packets a second of all floods.
    pub(crate) rate: u32,
    pub(crate) family: Family,
    pub(crate) seed: u64,
}

/// Lays siege to it.
///
/// # Errors
///
/// When the field cannot be made, what translates does not start, or the user wants to stop.
pub(crate) fn besiege(plan: &Plan, kind: Kind) -> Result<Report> {
    let &Plan {
        time,
        rate,
        family,
        seed,
    } = plan;
    say(&format!("{}: {time:?}", kind.name()));
    let field = Field::new()?;
    let translator = Translator::start(kind, &field, family, &Service::ALL)?;
    let targets = Targets::default();
    let begin = Instant::now();
    let clients = Clients::start(&field, family, seed, begin, &targets);
    interrupt::pass(PEACE.min(time))?;

    let floods = Floods::start(&field, family, rate, seed, &targets)?;
    let mut disturbance = Disturbance::new(translator, field.node(), seed);
    let (started, before) = (Instant::now(), Processors::now()?);
    let ticks = disturbance.translator().ticks();
    let mut news = started + NEWS;
    while started.elapsed() < time {
        interrupt::check()?;
        disturbance.go_on()?;
        if Instant::now() >= news {
            news += NEWS;
            let (done, failed) = clients.so_far();
            let seconds = begin.elapsed().as_secs();
            say(&format!("{seconds:4} s: {done} served, {failed} not"));
        }
        thread::sleep(GLANCE);
    }
    let flooding = started.elapsed();
    // Those with open connections have a last word, still in the floods.
    let ledgers = clients.stop()?;
    let agent = disturbance.translator().ticks().saturating_sub(ticks);
    let processors = Processors::now()?.since(before, agent);
    let floods = floods.stop()?;
    disturbance.translator().revive()?;
    Ok(Report {
        name: disturbance.translator().name(),
        time: flooding,
        ledgers,
        floods,
        happened: disturbance.happened(),
        counted: disturbance.translator().counted(),
        processors,
    })
}

fn say(what: &str) {
    // The reader may be gone: the exit status still counts.
    drop(writeln!(io::stdout(), "siege: {what}"));
}
