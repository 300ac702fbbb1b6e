//! From a Consul catalog to the kernel's tables.
//!
//! The agent is the real one, and so is Consul: one server, in the agent's network namespace. What the
//! agent has done is seen in its pinned tables, which are looked at all the time.

mod change;
mod flapping;
mod follower;
mod rest;
mod start;
mod world;

use anyhow::Result;
use shunt_tests::consul_binary;

use self::{
    change::Changed,
    follower::Follower,
    world::{Acl, Way, World},
};
use crate::{bench::Bench, machine::priority};

const WAYS: [Way; 2] = [Way::Https, Way::Http];

/// Runs the suite; without Consul it prints a message, and measures nothing.
///
/// # Errors
///
/// If Consul or an agent does not start, or its tables do not match the catalog.
pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    if !bench.wants("consul/") {
        return Ok(());
    }
    let Some(binary) = consul_binary() else {
        return Ok(());
    };
    priority::real_time()?;
    for acl in [Acl::Off, Acl::On] {
        let studies = studies(acl);
        let mut names = studies
            .iter()
            .flat_map(|what| WAYS.map(|way| acl.study(way, what)));
        if names.any(|name| bench.wants(&name)) {
            follow(bench, &World::new(&binary, acl)?)?;
        }
    }
    Ok(())
}

/// Returns the words for the studies of each way.
const fn studies(acl: Acl) -> &'static [&'static str] {
    match acl {
        Acl::Off => &["start", "change", "registration", "flapping", "rest"],
        // What rights may cost: a health that turns needs none, and an instance that vanishes does.
        Acl::On => &["change", "deregistration"],
    }
}

fn follow(bench: &mut Bench, world: &World) -> Result<()> {
    let studies = studies(world.acl);
    for way in WAYS {
        if studies.contains(&"start") {
            start::run(bench, world, way)?;
        }
        let mut others = studies.iter().filter(|what| **what != "start");
        if !others.any(|what| bench.wants(&world.study(way, what))) {
            continue;
        }
        let (follower, frontends, _) = Follower::complete(&bench.options().agent, world, way)?;
        for changed in [Changed::Health, Changed::Port, Changed::Gone] {
            if studies.contains(&changed.study()) {
                change::run(bench, world, &follower, &frontends, changed)?;
            }
        }
        if studies.contains(&"flapping") {
            flapping::run(bench, world, &follower)?;
        }
        if studies.contains(&"rest") {
            rest::run(bench, world, &follower)?;
        }
        follower.check()?;
    }
    Ok(())
}
