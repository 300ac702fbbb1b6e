//! From a Consul catalog to the kernel's tables.
//!
//! The agent is the real one, and so is Consul: one server, in the agent's network namespace. What the
//! agent has done is seen in its pinned tables, which are looked at all the time.

mod change;
mod flapping;
mod follower;
mod start;
mod world;

use anyhow::Result;
use shunt_tests::consul_binary;

use self::{
    change::Changed,
    follower::{Follower, Way},
    world::World,
};
use crate::{bench::Bench, machine::priority};

/// Runs the suite; without Consul it says so, and measures nothing.
///
/// # Errors
///
/// If Consul or an agent does not start, or its tables are not what the catalog says.
pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    if !bench.wants("consul/") {
        return Ok(());
    }
    let Some(binary) = consul_binary() else {
        return Ok(());
    };
    priority::real_time()?;
    let world = World::new(&binary)?;
    for way in [Way::Https, Way::Http] {
        start::run(bench, &world, way)?;
        let studies = [way.change(), way.registration(), way.flapping()];
        if !studies.iter().any(|study| bench.wants(study)) {
            continue;
        }
        let (follower, frontends, _) = Follower::complete(&bench.options().agent, &world, way)?;
        for changed in [Changed::Health, Changed::Port] {
            change::run(bench, &world, &follower, &frontends, changed)?;
        }
        flapping::run(bench, &world, &follower)?;
        follower.check()?;
    }
    Ok(())
}
