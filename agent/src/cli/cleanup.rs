//! `shunt cleanup`: the end of translation.

use std::process::ExitCode;

use clap::Args;
use shunt_datapath::{Removed, cleanup};

use crate::cli::flags::paths::PinArgs;

/// Remove everything that an agent has pinned
///
/// Translation ends, also for open connections. Refused while an agent runs.
#[derive(Debug, Args)]
pub(crate) struct CleanupArgs {
    #[command(flatten)]
    pins: PinArgs,
}

/// Removes what is pinned.
///
/// # Errors
///
/// If an agent uses it, or it cannot be removed.
pub(crate) fn run(args: &CleanupArgs) -> anyhow::Result<ExitCode> {
    let CleanupArgs {
        pins: PinArgs { pin_dir },
    } = args;
    match cleanup(pin_dir)? {
        Some(Removed {
            links,
            programs,
            maps,
        }) => println!(
            "removed {}: {links} links, {programs} programs, {maps} tables",
            pin_dir.display()
        ),
        None => println!("nothing is pinned at {}", pin_dir.display()),
    }
    Ok(ExitCode::SUCCESS)
}
