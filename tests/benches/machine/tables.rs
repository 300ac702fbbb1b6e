//! Contents of an agent's tables.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use shunt_tests::{Agent, interrupt, run};

/// Time that an agent may take to free what was replaced: it waits until no event has come for a while.
const FREED: Duration = Duration::from_secs(10);

/// Longer than that while: a question is a disturbance, too.
const QUIET: Duration = Duration::from_millis(200);

/// Makes sure that the kernel's tables, read back, match the events of `agent`, and hold so many
/// backends once what was replaced is free. `binary` asks it.
///
/// # Errors
///
/// If they do not.
pub(crate) fn await_backends(agent: &Agent, binary: &Path, expected: u32) -> Result<()> {
    let deadline = Instant::now() + FREED;
    loop {
        interrupt::check()?;
        let used = used(agent, binary, "backends")?;
        if used == u64::from(expected) {
            return Ok(());
        }
        ensure!(
            Instant::now() < deadline,
            "{used} backends in the tables, not {expected}"
        );
        thread::sleep(QUIET);
    }
}

/// Returns the number of entries that the tables of this name hold in both families for the agent's events.
///
/// # Errors
///
/// If they are not.
pub(crate) fn used(agent: &Agent, binary: &Path, name: &str) -> Result<u64> {
    let socket = agent.socket().to_string_lossy();
    let binary = binary.to_string_lossy();
    let status = run(&binary, &["status", "-o", "json", "--socket", &*socket])?;
    let status: Value = serde_json::from_str(&status).context("cannot read the status")?;
    let differences = status["differences"].as_array().context("no differences")?;
    ensure!(
        differences.is_empty(),
        "{} frontends differ from what the agent was told",
        differences.len()
    );
    let tables = status["tables"].as_array().context("no tables")?;
    let named = tables.iter().filter(|table| {
        let table = table["name"].as_str().unwrap_or_default();
        table.to_lowercase().contains(name)
    });
    Ok(named.filter_map(|table| table["used"].as_u64()).sum())
}
