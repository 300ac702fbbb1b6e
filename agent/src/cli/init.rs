//! `shunt init`: what an agent needs of the host and may not make itself.

use std::process::ExitCode;

use clap::Args;
use shunt_datapath::{mount_bpffs, root_cgroup};
use tracing_subscriber::EnvFilter;

use crate::cli::{flags::paths::PinArgs, log};

/// Mount what an agent needs on this host, and exit
///
/// For an init container that is privileged, before an agent that is not: a bpf file system for what
/// outlives the agent, and the root of all cgroups if it cannot be seen. What is mounted already
/// stays. An agent that is root on a host needs none of this.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    #[command(flatten)]
    pins: PinArgs,
}

/// Mounts what is missing, and says where all is.
///
/// # Errors
///
/// If there is no bpf file system and none can be mounted.
pub(crate) fn run(args: &InitArgs) -> anyhow::Result<ExitCode> {
    let InitArgs {
        pins: PinArgs { pin_dir },
    } = args;
    log::start(EnvFilter::new("info"));
    mount_bpffs(pin_dir)?;
    println!("{} is on a bpf file system", pin_dir.display());
    // An agent does without it, and says so in its status.
    match root_cgroup() {
        Ok(Some(path)) => println!("the root of all cgroups is at {}", path.display()),
        Ok(None) => println!(
            "the root of all cgroups cannot be mounted in this cgroup namespace: processes of the \
             node will be no clients"
        ),
        Err(error) => println!("{error}: processes of the node will be no clients"),
    }
    Ok(ExitCode::SUCCESS)
}
