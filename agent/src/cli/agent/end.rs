//! The end of an agent, and what it leaves.

use std::{path::Path, process::ExitCode};

use anyhow::Result;
use shunt_datapath::{Datapath, cleanup};
use shunt_runtime::Agent;
use tracing::info;

/// Ends the agent. What is pinned stays, unless there is nothing to keep up.
pub(super) fn finish(agent: Agent, pin_dir: Option<&Path>) -> Result<ExitCode> {
    info!("stopping: {}", totals(&agent));
    let idle = is_idle(agent.datapath())?;
    drop(agent);
    clean_up(pin_dir, idle)?;
    Ok(ExitCode::SUCCESS)
}

/// Ends an agent that has nothing but this datapath yet, as [`finish`] does.
pub(super) fn give_up(datapath: Datapath, pin_dir: Option<&Path>) -> Result<()> {
    let idle = is_idle(&datapath)?;
    drop(datapath);
    clean_up(pin_dir, idle)
}

fn is_idle(datapath: &Datapath) -> Result<bool> {
    Ok(datapath.is_empty()? && datapath.connections().is_empty()?)
}

fn clean_up(pin_dir: Option<&Path>, is_idle: bool) -> Result<()> {
    if let (Some(pin_dir), true) = (pin_dir, is_idle) {
        cleanup(pin_dir)?;
        info!("nothing is translated: nothing stays pinned");
    }
    Ok(())
}

/// Returns the programs' counters, in words.
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
