//! The agent's memory for an endpoint.

use std::time::Duration;

use anyhow::Result;
use shunt_tests::wait_until;

use super::{
    change::Changes,
    follower::Follower,
    world::{ALL, ALL_ENDPOINTS, SERVICES, World},
};
use crate::{
    bench::Bench,
    machine::process,
    measure::{Better, Bound, Limit, Study, sample},
};

const NAME: &str = "cluster/memory";

/// Limit for an endpoint, in bytes.
const LIMIT: f64 = 500.0;

/// Number of pages of all lists: ten of Services and EndpointSlices each, one of Nodes, one of
/// ServiceCIDRs, one of definitions of other kinds.
const PAGES: usize = 2 * SERVICES as usize / 500 + 3;

/// Runs the study.
///
/// # Errors
///
/// If an agent does not do as it should.
pub(super) fn run(bench: &mut Bench, world: &World) -> Result<()> {
    const SUBJECT: &str = "agent";
    if !bench.wants(NAME) {
        return Ok(());
    }
    let binary = bench.options().agent.clone();
    let none = World::empty()?;
    let bound = |when| {
        let label = format!("{when}, bytes an endpoint");
        Bound::figure(label, SUBJECT, when, Limit::AtMost(LIMIT))
    };
    bench.study(
        Study::new(
            NAME,
            "bytes an endpoint, of 250,000, resident above what an agent without a service has",
            Better::Lower,
        )
        .slow()
        .rounds(bench.rounds(3, 1))
        .subject(SUBJECT, || {
            let empty = Follower::start(&binary, &none)?.resident()?;
            let (follower, kernel, _) = Follower::complete(&binary, world, ALL)?;
            let first = follower.resident()?;
            let peak = process::memory(follower.pid(), "VmHWM")?;
            let changes = Changes::new(world, kernel);
            (0..SERVICES).for_each(|_| changes.put());
            changes.settle()?;
            let changed = follower.resident()?;
            // What was known of a list's way here is forgotten, so that all is listed once more.
            world.server.compact();
            world.server.cut();
            let lists = world.server.list_times().len();
            let is_listed = || (world.server.list_times().len() >= lists + PAGES).then_some(());
            wait_until("all is listed anew", Duration::from_secs(30), is_listed)?;
            changes.settle()?;
            let listed = follower.resident()?;
            let each = |bytes: u64| bytes as f64 / f64::from(ALL_ENDPOINTS);
            Ok(sample([
                ("after start", each(first.saturating_sub(empty))),
                (
                    "after a change of each slice",
                    each(changed.saturating_sub(empty)),
                ),
                ("after another list", each(listed.saturating_sub(empty))),
                ("peak at start", each(peak.saturating_sub(empty))),
                ("without a service", each(empty)),
            ]))
        })
        .bound(bound("after start"))
        .bound(bound("after a change of each slice"))
        .bound(bound("after another list")),
    )
}
