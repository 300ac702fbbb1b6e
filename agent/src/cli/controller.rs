//! `shunt controller`: the status of routes, and endpoints outside the cluster, of one process for all of it.

use std::{
    fs,
    net::SocketAddr,
    path::PathBuf,
    process::{self, ExitCode},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use ipnet::IpNet;
use shunt_kubernetes::{
    ApiServer, Controller, ControllerOptions, LeaseOptions, ProbeLimits, ProbeOptions,
    RangeOptions, WorkloadOptions,
};
use shunt_print::duration::Seconds;
use shunt_serve::serve_controller;
use tokio::runtime::Builder;
use tracing::info;

use crate::{
    cli::{
        flags::{cidr::cidr, http::BindAddress},
        log,
        stop::Stop,
    },
    host::open_files::raise_open_files,
};

/// File with the host's name, as gethostname(2) has it: in a pod, the pod's.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// It is the reporting instance of Events, of which the API takes 128 bytes.
const LONGEST_IDENTITY: usize = 100;

/// The files that are open besides those of probes: connections to the API server, listeners and their clients.
const SPARE: u64 = 256;

/// The usual ports of a controller.
const HEALTH: u16 = 8081;
const METRICS: u16 = 8080;

/// Write the status of a Kubernetes cluster's TCPRoutes and UDPRoutes, and the EndpointSlices of workloads
/// outside of it
///
/// Of several of them, the one that has a Lease writes. It needs no rights on its host. Runs until
/// SIGINT or SIGTERM. RUST_LOG sets what is logged (default: info).
#[derive(Debug, Args)]
pub(crate) struct ControllerArgs {
    /// Kubeconfig for access to the API server [default: access as every pod of the cluster has it]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Address of the API server, in place of the configured one
    #[arg(long, value_name = "URL")]
    kube_apiserver: Option<String>,

    /// The agents' --service-proxy-name, if they have one
    #[arg(long, value_name = "NAME")]
    service_proxy_name: Option<String>,

    /// Groups whose ExternalWorkloads become endpoints of the Services that select them
    #[arg(
        long,
        value_enum,
        value_name = "GROUPS",
        value_delimiter = ',',
        default_value = "shunt"
    )]
    external_workloads: Vec<GroupArg>,

    /// Handle the Services of the namespace kube-system as all others
    #[arg(long)]
    external_workloads_in_kube_system: bool,

    /// Ranges that workloads may have addresses of, although they are the cluster's own or refused; of two ranges the
    /// longer prefix counts
    #[arg(long, value_name = "CIDRS", value_delimiter = ',', value_parser = cidr)]
    allow_workload_ranges: Vec<IpNet>,

    /// Ranges that workloads may not have addresses of, besides Nodes, their podCIDRs, ClusterIPs, ServiceCIDRs and the
    /// API server: those of pods that have addresses of the network, for example
    #[arg(long, value_name = "CIDRS", value_delimiter = ',', value_parser = cidr)]
    refuse_workload_ranges: Vec<IpNet>,

    /// Look whether workloads are ready that ask for it, and write that into their status; without GROUPS, those
    /// of workload.shunt.io
    #[arg(
        long,
        value_enum,
        value_name = "GROUPS",
        value_delimiter = ',',
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "shunt"
    )]
    probe: Vec<GroupArg>,

    /// The most probes under way at once of one namespace's workloads
    #[arg(long, value_name = "COUNT", default_value = "512", value_parser = at_least_one)]
    max_probes_per_namespace: usize,

    /// The most probes under way at once, each of which takes an open file [default: 8192, or as many as this process
    /// may have open]
    #[arg(long, value_name = "COUNT", value_parser = at_least_one)]
    max_probes: Option<usize>,

    /// The namespace of the Lease [default: that of this pod]
    #[arg(long, value_name = "NAME")]
    lease_namespace: Option<String>,

    /// The name of the Lease
    #[arg(long, value_name = "NAME", default_value = "shunt-controller")]
    lease_name: String,

    /// Duration of the Lease: if it is not renewed for so long, another controller takes it
    #[arg(long, value_name = "DURATION", default_value = "15s")]
    lease_duration: Seconds,

    /// Time before the end of the Lease at which a controller that cannot renew it stops writing
    #[arg(long, value_name = "DURATION", default_value = "5s")]
    lease_grace: Seconds,

    /// Name that no other controller has [default: the host's name, and the process's number]
    #[arg(long, value_name = "NAME")]
    identity: Option<String>,

    /// Address of /healthz, /livez and /readyz; an empty address switches it off
    #[arg(long, value_name = "IP:PORT", value_parser = health, default_value = "0.0.0.0:8081")]
    healthz_bind_address: BindAddress,

    /// Address of /metrics; an empty address switches it off
    #[arg(long, value_name = "IP:PORT", value_parser = metrics, default_value = "0.0.0.0:8080")]
    metrics_bind_address: BindAddress,
}

/// Group of ExternalWorkloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum GroupArg {
    /// None
    Off,
    /// ExternalWorkloads of workload.shunt.io
    Shunt,
    /// ExternalWorkloads of workload.linkerd.io
    Linkerd,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count) if count > 0 => Ok(count),
        _ => Err("it must be a number from 1 on".to_owned()),
    }
}

fn health(text: &str) -> Result<BindAddress, String> {
    BindAddress::parse(text, HEALTH)
}

fn metrics(text: &str) -> Result<BindAddress, String> {
    BindAddress::parse(text, METRICS)
}

impl ControllerArgs {
    /// Returns the addresses of health and metrics.
    fn addresses(&self) -> [Option<SocketAddr>; 2] {
        let BindAddress(health) = self.healthz_bind_address;
        let BindAddress(metrics) = self.metrics_bind_address;
        [health, metrics]
    }

    /// Returns the controller's options, for so many files that may be open.
    fn options(self, files: u64) -> Result<ControllerOptions> {
        let Self {
            kubeconfig,
            kube_apiserver,
            service_proxy_name,
            external_workloads,
            external_workloads_in_kube_system,
            allow_workload_ranges,
            refuse_workload_ranges,
            probe,
            max_probes_per_namespace,
            max_probes,
            lease_namespace,
            lease_name,
            lease_duration: Seconds(duration),
            lease_grace: Seconds(grace),
            identity,
            healthz_bind_address: _,
            metrics_bind_address: _,
        } = self;
        if grace == 0 || grace >= duration {
            bail!("--lease-grace must be more than 0s and less than --lease-duration");
        }
        let has = |group| external_workloads.contains(&group);
        let probes = |group| probe.contains(&group);
        for (flag, groups) in [
            ("--external-workloads", &external_workloads),
            ("--probe", &probe),
        ] {
            if groups.contains(&GroupArg::Off) && groups.len() > 1 {
                bail!("{flag} is either off, or whose they are");
            }
        }
        for (group, name) in [(GroupArg::Shunt, "shunt"), (GroupArg::Linkerd, "linkerd")] {
            if probes(group) && !has(group) {
                bail!("--probe={name} needs {name} among --external-workloads");
            }
        }
        // As the API has it.
        if i32::try_from(duration).is_err() {
            bail!(
                "--lease-duration must be less than {}",
                Seconds(i32::MAX as u32)
            );
        }
        Ok(ControllerOptions {
            api_server: ApiServer {
                kubeconfig,
                url: kube_apiserver,
            },
            proxy_name: service_proxy_name,
            workloads: WorkloadOptions {
                shunt: has(GroupArg::Shunt),
                linkerd: has(GroupArg::Linkerd),
                in_kube_system: external_workloads_in_kube_system,
                probes: ProbeOptions {
                    shunt: probes(GroupArg::Shunt),
                    linkerd: probes(GroupArg::Linkerd),
                    limits: ProbeLimits {
                        of_namespace: max_probes_per_namespace,
                        of_all: probes_at_once(max_probes, files)?,
                    },
                },
                ranges: RangeOptions {
                    allowed: allow_workload_ranges,
                    refused: refuse_workload_ranges,
                },
            },
            lease: LeaseOptions {
                namespace: lease_namespace,
                name: lease_name,
                identity: identified(identity)?,
                duration: Duration::from_secs(duration.into()),
                grace: Duration::from_secs(grace.into()),
            },
        })
    }
}

/// The most probes under way at once, by the flag or else by default, where so many files may be open.
fn probes_at_once(flag: Option<usize>, files: u64) -> Result<usize> {
    let room = usize::try_from(files.saturating_sub(SPARE))?;
    match flag {
        Some(count) if count > room => bail!(
            "--max-probes {count} takes {} open files, and this process may have {files}: lower it, or raise the \
             limit of open files (RLIMIT_NOFILE)",
            count as u64 + SPARE
        ),
        Some(count) => Ok(count),
        None => Ok(ProbeLimits::default().of_all.min(room).max(1)),
    }
}

/// Returns the name of this controller: the given one, or the name of this process among those of all hosts.
fn identified(given: Option<String>) -> Result<String> {
    if let Some(given) = given {
        if given.is_empty() || given.len() > LONGEST_IDENTITY {
            bail!("--identity must have 1 to {LONGEST_IDENTITY} bytes");
        }
        return Ok(given);
    }
    let host = fs::read_to_string(HOST_NAME)
        .with_context(|| format!("cannot read this host's name from {HOST_NAME}"))?;
    Ok(format!("{}_{}", host.trim(), process::id()))
}

/// Runs until a signal comes.
///
/// # Errors
///
/// It is not known how to reach the API server.
pub(crate) fn run(args: ControllerArgs) -> Result<ExitCode> {
    let filter = log::filter(log::DEFAULT)?;
    log::start(filter);
    let [health, metrics] = args.addresses();
    let files = raise_open_files().context("cannot raise the limit of open files")?;
    let options = args.options(files)?;
    Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?
        .block_on(async {
            let mut stop = Stop::listen()?;
            let controller = Controller::new(options).await?;
            serve_controller(&controller, health, metrics);
            Box::pin(controller.run(stop.wait())).await?;
            info!("stopping");
            Ok(ExitCode::SUCCESS)
        })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        controller: ControllerArgs,
    }

    fn options(flags: &[&str]) -> Result<ControllerOptions> {
        let flags = [&["controller"], flags].concat();
        Flags::try_parse_from(flags)?.controller.options(1 << 20)
    }

    #[test]
    fn no_more_probes_are_under_way_than_files_may_be_open() {
        for (flag, files, expected) in [
            (None, 1 << 20, Some(8192)),
            (None, 1024, Some(768)),
            (None, 10, Some(1)),
            (Some(768), 1024, Some(768)),
            (Some(769), 1024, None),
        ] {
            let found = probes_at_once(flag, files);
            assert_eq!(found.ok(), expected, "{flag:?} of {files}");
        }
    }

    #[test]
    fn workloads_of_our_group_are_followed_unless_it_is_said_otherwise() {
        for (flags, expected) in [
            (&[][..], Some((true, false))),
            (&["--external-workloads=off"], Some((false, false))),
            (&["--external-workloads=linkerd"], Some((false, true))),
            (&["--external-workloads=shunt,linkerd"], Some((true, true))),
            (&["--external-workloads=shunt,off"], None),
            (&["--external-workloads=other"], None),
        ] {
            let found = options(flags).ok();
            let found = found.map(|one| (one.workloads.shunt, one.workloads.linkerd));
            assert_eq!(found, expected, "{flags:?}");
        }
    }

    #[test]
    fn workloads_are_probed_if_so_asked_and_only_those_that_are_followed() {
        let all = "--external-workloads=shunt,linkerd";
        let theirs = "--external-workloads=linkerd";
        for (flags, expected) in [
            (&[][..], Some((false, false))),
            (&["--probe"], Some((true, false))),
            (&["--probe=off"], Some((false, false))),
            (&["--probe=shunt"], Some((true, false))),
            (&[all, "--probe"], Some((true, false))),
            (&[all, "--probe=linkerd"], Some((false, true))),
            (&[all, "--probe=shunt,linkerd"], Some((true, true))),
            (&["--probe=linkerd"], None),
            (&[theirs, "--probe"], None),
            (&["--probe=shunt,off"], None),
        ] {
            let found = options(flags).ok().map(|one| one.workloads.probes);
            let found = found.map(|probes| (probes.shunt, probes.linkerd));
            assert_eq!(found, expected, "{flags:?}");
        }
    }

    #[test]
    fn a_lease_is_renewed_before_it_ends() {
        let lease = options(&[]).unwrap().lease;
        assert_eq!((&*lease.name, lease.namespace), ("shunt-controller", None));
        assert!(!lease.identity.is_empty());
        for (duration, grace, is_good) in [
            ("15s", "5s", true),
            ("2s", "1s", true),
            ("5s", "5s", false),
            ("5s", "0s", false),
            ("1000000h", "5s", false),
        ] {
            let flags = ["--lease-duration", duration, "--lease-grace", grace];
            assert_eq!(options(&flags).is_ok(), is_good, "{duration} {grace}");
        }
        for (length, is_good) in [(0, false), (1, true), (100, true), (101, false)] {
            let identity = "x".repeat(length);
            assert_eq!(
                options(&["--identity", &identity]).is_ok(),
                is_good,
                "{length}"
            );
        }
    }
}
