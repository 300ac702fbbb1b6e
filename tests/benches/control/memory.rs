//! Memory of a backend, in the kernel and in the agent.
//!
//! The agent has the kernel's tables mapped, so they are part of what is resident of it; they are
//! the kernel's, and counted there. What the agent has of its own is its anonymous memory.

use std::path::Path;

use anyhow::Result;

use super::{
    agent::Subject,
    world::{LARGE, World},
};
use crate::{
    bench::Bench,
    measure::{Better, Bound, Limit, Study, sample},
    report::Facts,
};

const NAME: &str = "control/memory";

/// Limits of a backend's bytes in the kernel, besides what is fixed, and in the agent.
const KERNEL_LIMIT: f64 = 100.0;
const AGENT_LIMIT: f64 = 400.0;

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
    let event = LARGE.resync();
    let backends = f64::from(LARGE.all_backends());
    bench.study(
        Study::new(NAME, "bytes a backend, of 250,000", Better::Lower)
            .rounds(bench.rounds(3, 1))
            .slow()
            .subject("kernel", || {
                let of = |world| tables(&binary, world);
                let none = World {
                    services: 1,
                    backends: 1,
                    node_ports: false,
                };
                let bytes = of(LARGE)?.saturating_sub(of(none)?);
                Ok(sample([("tables", bytes as f64 / backends)]))
            })
            .subject("agent", || {
                let mut subject = Subject::start(&binary, &[])?;
                let empty = subject.memory("RssAnon")?;
                subject.apply(&event)?;
                let once = subject.settled()?;
                subject.apply(&event)?;
                let twice = subject.settled()?;
                let peak = subject.memory("VmHWM")?;
                let each = |bytes: u64| bytes as f64 / backends;
                Ok(sample([
                    ("before", each(empty)),
                    ("after start", each(once)),
                    ("after another Resync", each(twice)),
                    ("peak, with the tables mapped", each(peak)),
                ]))
            })
            .bound(Bound::figure(
                "kernel, beside the fixed tables",
                "kernel",
                "tables",
                Limit::AtMost(KERNEL_LIMIT),
            ))
            .bound(Bound::figure(
                "agent, after start",
                "agent",
                "after start",
                Limit::AtMost(AGENT_LIMIT),
            )),
    )?;
    let subject = Subject::start(&binary, &[])?;
    let megabytes = subject.tables()? as f64 / 1e6;
    bench.facts(Facts {
        name: format!("{NAME}-tables"),
        columns: vec!["tables", ">MB"],
        rows: vec![vec![
            "all of both families, in their default sizes".to_owned(),
            format!("{megabytes:.0}"),
        ]],
    });
    Ok(())
}

/// Returns the size of tables that are just large enough for these services twice over, in bytes,
/// as they are to be for replacing all of them at once.
fn tables(binary: &Path, world: World) -> Result<u64> {
    let backends = world.all_backends().to_string();
    let slots = (world.all_backends() * 2).to_string();
    let frontends = world.services.to_string();
    let flags = [
        "--ip-families",
        "ipv4",
        "--max-backends",
        &backends,
        "--max-slots",
        &slots,
        "--max-frontends",
        &frontends,
    ];
    let mut subject = Subject::start(binary, &flags)?;
    subject.apply(&world.resync())?;
    subject.check(world.all_backends())?;
    subject.tables()
}
