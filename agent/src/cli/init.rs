//! `shunt init`: what an agent needs of the host and may not make itself.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use shunt_datapath::{mount_bpffs, mount_root_cgroup};
use tracing_subscriber::EnvFilter;

use crate::cli::{
    config::{agent_file::is_agent_file, flags::KubeProxyFlags, settings::KubeProxySettings},
    flags::paths::PinArgs,
    log,
};

/// Mount and set what an agent needs on this host, and exit
///
/// For an init container that is privileged, before an agent that is not: a bpf file system for what
/// outlives the agent, the root of all cgroups at /run/shunt/cgroup, and what kube-proxy's
/// configuration asks of the kernel. What is mounted there already stays. An agent that is root on a
/// host needs none of this.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// The agent's KubeProxyConfiguration: the settings of the kernel's connection tracking that it
    /// asks for are made, which an agent in a container cannot
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(flatten)]
    pins: PinArgs,
}

/// Mounts what is missing, and prints all paths.
///
/// # Errors
///
/// If there is no bpf file system and none can be mounted, or the configuration is wrong.
pub(crate) fn run(args: &InitArgs) -> anyhow::Result<ExitCode> {
    let InitArgs {
        config,
        pins: PinArgs { pin_dir },
    } = args;
    log::start(EnvFilter::new("info"));
    if let Some(config) = config.as_ref().filter(|config| !is_agent_file(config)) {
        let settings = KubeProxySettings::of(&KubeProxyFlags {
            config: Some(config.clone()),
            given: Vec::new(),
        })?;
        // An agent does without them, and logs that.
        for complaint in settings.netfilter.apply() {
            println!("{complaint}");
        }
        println!("the kernel is set as {} asks for", config.display());
    }
    mount_bpffs(pin_dir)?;
    println!("{} is on a bpf file system", pin_dir.display());
    // An agent does without it, and shows that in its status.
    match mount_root_cgroup() {
        Ok(Some(path)) => println!("the root of all cgroups is at {}", path.display()),
        Ok(None) => println!(
            "the root of all cgroups cannot be mounted in this cgroup namespace: processes of the \
             node will be no clients"
        ),
        Err(error) => println!("{error}: processes of the node will be no clients"),
    }
    Ok(ExitCode::SUCCESS)
}
