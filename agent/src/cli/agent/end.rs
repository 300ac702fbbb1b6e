//! When an agent ends, and what it leaves.

use std::{path::Path, process::ExitCode};

use anyhow::Result;
use shunt::Agent;
use shunt_datapath::cleanup;
use tracing::info;

/// Ends the agent. What is pinned stays, unless there is nothing to keep up.
pub(super) fn finish(agent: Agent, pin_dir: Option<&Path>) -> Result<ExitCode> {
    info!("stopping: {}", totals(&agent));
    let datapath = agent.datapath();
    let idle = datapath.is_empty()? && datapath.connections().is_empty()?;
    drop(agent);
    if let (Some(pin_dir), true) = (pin_dir, idle) {
        cleanup(pin_dir)?;
        info!("nothing is translated: nothing stays pinned");
    }
    Ok(ExitCode::SUCCESS)
}

/// What the programs counted, in words.
fn totals(agent: &Agent) -> String {
    match agent.datapath().counters().read() {
        Ok(counters) => {
            let counted = counters.into_iter().filter(|(_, packets)| *packets > 0);
            let counted: Vec<String> = counted
                .map(|(counter, packets)| format!("{} {packets}", counter.name()))
                .collect();
            if counted.is_empty() {
                "no packet was counted".to_owned()
            } else {
                counted.join(", ")
            }
        }
        Err(error) => format!("the counters cannot be read: {error}"),
    }
}
