//! An agent's needs of its host, and the settings that it makes there.

use std::{net::IpAddr, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, bail};
use ipnet::IpNet;
use shunt_common::PortRange;
use shunt_datapath::{Datapath, Families, PodDetection, Unlisted};
use shunt_model::RenderOptions;
use shunt_runtime::{HostPart, Reports};
use tokio::time::sleep;
use tracing::warn;

use crate::{
    cli::{
        config::settings::KubeProxySettings,
        flags::{node::NodeArgs, snat::SnatArgs},
    },
    host::{
        capabilities::missing_capabilities,
        kernel_settings::set_oom_score,
        kernel_version::Version,
        open_files::raise_open_files,
        settings::{HostNeeds, HostSettings},
    },
};

/// Interval at which the host is checked.
const LOOK: Duration = Duration::from_secs(10);

/// Refuses to begin without the capabilities that the kernel requires, logs the warnings about kube-proxy's
/// configuration, and has the process open as many files as it may.
///
/// # Errors
///
/// A capability is missing.
pub(super) fn check_in(kube_proxy: &KubeProxySettings) -> Result<()> {
    require_capabilities()?;
    for warning in &kube_proxy.warnings {
        warn!("{warning}");
    }
    if let Err(error) = raise_open_files() {
        warn!(%error, "the limit of open files stays: each interface takes two");
    }
    Ok(())
}

/// The kernel's own answers name nothing.
fn require_capabilities() -> Result<()> {
    let missing = missing_capabilities().context("cannot read what this process may do")?;
    if !missing.is_empty() {
        bail!(
            "{} missing: translation needs CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON, or root",
            missing.join(", ")
        );
    }
    Ok(())
}

/// Applies the kernel's settings of kube-proxy's configuration.
pub(super) fn set_up_host(kube_proxy: &KubeProxySettings) {
    for complaint in kube_proxy.netfilter.apply() {
        warn!("{complaint}");
    }
    if let Some(score) = kube_proxy.oom_score
        && let Err(error) = set_oom_score(score)
    {
        warn!(%error, "oom_score_adj cannot be set to {score}, which needs CAP_SYS_RESOURCE");
    }
}

/// Logs the faults that the kernel may have: sockets stay on a backend that is gone, because it does not list them, or its
/// own clients of services do. Shows them in the status.
pub(super) fn report_kernel(datapath: &Datapath, reports: &Reports) {
    let unlisted = datapath.stale_sockets().unlisted();
    let unlisted = unlisted.iter().map(|unlisted| match unlisted {
        Unlisted::Udp(_) => {
            format!("connected UDP sockets of this node stay on a backend that is gone: {unlisted}")
        }
        Unlisted::Tcp(_) => format!("--terminate-tcp ends no connection: {unlisted}"),
    });
    let has_hooks = !datapath.sockets().hooks.is_empty();
    let own_clients = Version::running().filter(|_| has_hooks);
    let own_clients = own_clients.and_then(Version::complaint);
    reports.set_host(HostPart::Kernel, unlisted.chain(own_clients).collect());
}

/// Translation's needs of this host, checked again and again: forwarding that is turned off later stands in the way as
/// much.
#[derive(Debug, Clone)]
pub(super) struct HostWatch {
    snat_ports: PortRange,
    pod_cidrs: Vec<IpNet>,
    pods_by_interface: bool,
    ipv4: bool,
    ipv6: bool,
}

impl HostWatch {
    /// Returns the watch over what these settings need.
    pub(super) fn new(
        families: Families,
        snat: &SnatArgs,
        node: &NodeArgs,
        pods: &PodDetection,
        options: &RenderOptions,
    ) -> Self {
        Self {
            snat_ports: snat.snat_ports,
            pod_cidrs: [&node.pod_cidrs[..], &pods.cluster_cidrs].concat(),
            pods_by_interface: pods.interfaces.are_known(),
            ipv4: families.ipv4,
            ipv6: families.ipv6 && uses_ipv6(options, &node.pod_cidrs),
        }
    }

    /// Logs what stands in the way, now and whenever something new does, and has the status show it.
    pub(super) fn start(self, reports: Arc<Reports>) {
        self.look(&reports);
        tokio::spawn(async move {
            loop {
                sleep(LOOK).await;
                self.look(&reports);
            }
        });
    }

    fn look(&self, reports: &Reports) {
        let Self {
            snat_ports,
            pod_cidrs,
            pods_by_interface,
            ipv4,
            ipv6,
        } = self;
        let complaints = HostSettings::read().complaints(&HostNeeds {
            snat_ports: *snat_ports,
            pod_cidrs,
            pods_by_interface: *pods_by_interface,
            ipv4: *ipv4,
            ipv6: *ipv6,
        });
        reports.set_host(HostPart::Settings, complaints);
    }
}

/// Returns whether there is IPv6 here besides what every interface has of it: an address that can reach other links, or
/// a setting that names one.
fn uses_ipv6(options: &RenderOptions, pod_cidrs: &[IpNet]) -> bool {
    let addresses = options.node_ips.iter().chain(&options.host_addresses);
    let mut addresses = addresses.copied().chain(pod_cidrs.iter().map(IpNet::addr));
    addresses.any(|address| match address {
        IpAddr::V4(_) => false,
        IpAddr::V6(v6) => !v6.is_loopback() && !v6.is_unicast_link_local(),
    })
}
