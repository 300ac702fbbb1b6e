//! From ExternalWorkloads to EndpointSlices.
//!
//! The controller is the real one, which follows and writes to the tests' own API server over HTTPS, both in one
//! network namespace. What it has done is seen at the server; it is not asked.

mod change;
mod cold;
mod world;

use anyhow::Result;

use crate::{bench::Bench, machine::priority};

/// Runs the suite.
///
/// # Errors
///
/// If a controller does not start, or its slices do not match the workloads.
pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    if !bench.wants("controllers/") {
        return Ok(());
    }
    priority::raise()?;
    cold::run(bench)?;
    change::run(bench)
}
