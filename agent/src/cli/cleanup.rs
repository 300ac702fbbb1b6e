//! `shunt cleanup`: the end of translation.

use std::process::ExitCode;

use clap::Args;
use shunt_datapath::{Removed, cleanup};

use crate::cli::{flags::paths::PinArgs, kube_proxy};

/// Remove everything that an agent has pinned, or what kube-proxy has left
///
/// Without --kube-proxy translation ends, also for open connections; refused while an agent runs.
#[derive(Debug, Args)]
pub(crate) struct CleanupArgs {
    #[command(flatten)]
    pins: PinArgs,

    /// Remove kube-proxy's nftables tables instead, and nothing of Shunt's: once the connections that
    /// go by them have ended. An agent may run, and should, and kube-proxy must not. Rules of its
    /// iptables and IPVS modes are shown; its own image removes them, with --cleanup
    #[arg(long, conflicts_with = "pin_dir")]
    kube_proxy: bool,

    /// Do not wait for connections: print the ones that end
    #[arg(long, requires = "kube_proxy")]
    now: bool,
}

/// Removes what is pinned.
///
/// # Errors
///
/// If an agent uses it, or it cannot be removed.
pub(crate) fn run(args: &CleanupArgs) -> anyhow::Result<ExitCode> {
    let CleanupArgs {
        pins: PinArgs { pin_dir },
        kube_proxy,
        now,
    } = args;
    if *kube_proxy {
        return kube_proxy::run(*now);
    }
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
