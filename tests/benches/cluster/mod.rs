//! From the API server of a cluster to the kernel's tables.
//!
//! The agent is the real one, which follows the tests' own API server over HTTPS, both in one network
//! namespace. The server has each object as text before any request for it. What the agent has done
//! is seen in its pinned tables, which are read all the time; it gets no request.

mod change;
mod churn;
mod cold;
mod follower;
mod memory;
mod tenants;
mod world;

use anyhow::Result;

use self::{
    follower::Follower,
    world::{ALL, World},
};
use crate::{bench::Bench, machine::priority};

/// Runs the suite.
///
/// # Errors
///
/// If an agent does not start, or its tables do not match the API.
pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    if !bench.wants("cluster/") {
        return Ok(());
    }
    priority::real_time()?;
    tenants::run(bench)?;
    let world = World::new()?;
    cold::run(bench, &world)?;
    memory::run(bench, &world)?;
    if bench.wants(change::NAME) || bench.wants(churn::NAME) {
        let (follower, kernel, _) = Follower::complete(&bench.options().agent, &world, ALL)?;
        let changes = change::Changes::new(&world, kernel);
        change::run(bench, &changes)?;
        churn::run(bench, &changes, &follower)?;
        changes.settle()?;
        follower.check()?;
    }
    Ok(())
}
