//! The agent's settings from kube-proxy's configuration.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
};

use anyhow::{Context as _, Result, bail};
use nix::unistd::{SysconfVar, sysconf};
use serde_json::json;
use shunt_datapath::Timeouts;
use shunt_runtime::GoDuration;

use crate::{
    cli::{
        config::{
            file::{self, Known},
            flags::KubeProxyFlags,
            reading::Reading,
            table::{Effect, SETTINGS, Setting},
            v1alpha1::{
                API_VERSION, Conntrack, DetectLocal, KIND, KubeProxyConfiguration, Logging,
                Nftables,
            },
            validate::complaints,
        },
        flags::{
            detect_local::DetectLocalArgs,
            http::{BindAddress, HEALTH, HttpArgs, METRICS},
            kubernetes::{Beside, KubernetesArgs},
        },
    },
    host::kernel_settings::NetfilterConntrack,
};

/// kube-proxy's own choice: the kernel ends nearly everything else first.
const OOM_SCORE: i32 = -999;

/// kube-proxy's timeouts of the kernel's connection tracking.
const TCP_ESTABLISHED: u32 = 24 * 3600;
const TCP_CLOSE_WAIT: u32 = 3600;

/// kube-proxy's size of that table: for each processor, and at least.
const MAX_PER_CORE: u32 = 32_768;
const LEAST: u32 = 131_072;

/// From this verbosity on klog's components log what they do step by step.
const DEBUG_VERBOSITY: u32 = 4;

/// The only feature gate that switches something here (Kubernetes 1.36).
const EXTERNAL_IPS: &str = "AllowServiceExternalIPs";

/// Flags that count beside a file: as with kube-proxy, and the one by which a kustomization opens the metrics.
const BESIDE_FILE: [&str; 10] = [
    "metrics-bind-address",
    "hostname-override",
    "v",
    "vmodule",
    "logging-format",
    "log-flush-frequency",
    "cleanup",
    "init-only",
    "write-config-to",
    "feature-gates",
];

/// The agent's settings that follow from the configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct KubeProxySettings {
    /// True if a file puts this agent in kube-proxy's place.
    from_file: bool,
    /// Addresses of health and metrics, if a file has them.
    health: Option<SocketAddr>,
    metrics: Option<SocketAddr>,
    hard_fail: bool,
    /// Timeouts of the agent's own table, as far as a file has them, in seconds.
    tcp_established: Option<u32>,
    tcp_close_wait: Option<u32>,
    udp: Option<u32>,
    udp_stream: Option<u32>,
    /// Settings of the kernel's connection tracking.
    pub(crate) netfilter: NetfilterConntrack,
    /// The process's score for the kernel's OOM killer.
    pub(crate) oom_score: Option<i32>,
    /// True if the log is verbose.
    pub(crate) is_verbose: bool,
    /// Warnings for the log about the rest.
    pub(crate) warnings: Vec<String>,
    /// The fields of the file that this version does not know. The warnings have them, too.
    pub(crate) unknown: Vec<String>,
    /// The configuration of the file, or of kube-proxy's flags.
    configuration: KubeProxyConfiguration,
}

impl KubeProxySettings {
    /// Returns the settings of a file, or else of flags.
    ///
    /// # Errors
    ///
    /// The file cannot be read or is wrong, or has a setting that is refused.
    pub(crate) fn of(flags: &KubeProxyFlags) -> Result<Self> {
        let of_flags = || flags.configuration().map_err(anyhow::Error::msg);
        let Some(path) = &flags.config else {
            let settings = Self::from_configuration(&of_flags()?, flags, false)?;
            return Ok(settings);
        };
        let read = || -> Result<Self> {
            let Known {
                mut configuration,
                unknown,
            } = file::read(path)?;
            let beside = KubeProxyFlags {
                config: None,
                given: flags
                    .given
                    .iter()
                    .filter(|(setting, _)| BESIDE_FILE.contains(&setting.flag))
                    .cloned()
                    .collect(),
            };
            let overrides = beside.configuration().map_err(anyhow::Error::msg)?;
            if overrides.hostname_override.is_some() {
                configuration.hostname_override = overrides.hostname_override;
            }
            if let Some(gates) = overrides.feature_gates {
                let all = configuration.feature_gates.get_or_insert_default();
                all.extend(gates);
            }
            if let Some(verbosity) = overrides.logging.and_then(|logging| logging.verbosity) {
                let logging = configuration.logging.get_or_insert_default();
                logging.verbosity = Some(verbosity);
            }
            let mut settings = Self::from_configuration(&configuration, &beside, true)?;
            for (Setting { flag, .. }, _) in &flags.given {
                if !BESIDE_FILE.contains(flag) {
                    let warning = format!(
                        "--{flag} has no effect beside --config: the file alone counts, as with \
                         kube-proxy"
                    );
                    settings.warnings.push(warning);
                }
            }
            let words = unknown
                .iter()
                .map(|field| format!("{field} has no effect: this version knows no such field"));
            settings.warnings.extend(words);
            settings.unknown = unknown;
            Ok(settings)
        };
        read().with_context(|| format!("--config {}", path.display()))
    }

    fn from_configuration(
        configuration: &KubeProxyConfiguration,
        flags: &KubeProxyFlags,
        from_file: bool,
    ) -> Result<Self> {
        let wrong = complaints(configuration);
        if !wrong.is_empty() {
            bail!("{}", wrong.join("; "));
        }
        let mut warnings = effects(configuration, flags, from_file)?;
        let gates = configuration.feature_gates.iter().flatten();
        let others = gates.filter(|(name, _)| *name != EXTERNAL_IPS);
        warnings.extend(others.map(|(name, _)| {
            format!(
                "the feature gate {name} has no effect: what has to be switched has a flag of its \
                 own"
            )
        }));
        let KubeProxyConfiguration {
            bind_address,
            healthz_bind_address,
            metrics_bind_address,
            bind_address_hard_fail,
            oom_score_adj,
            conntrack,
            logging,
            ..
        } = configuration;
        let conntrack = conntrack.clone().unwrap_or_default();
        // Nothing, or an explicit 0, which leaves things as they are.
        let seconds = |timeout: Option<GoDuration>| {
            let seconds = timeout.map(GoDuration::whole_seconds);
            seconds.filter(|seconds| *seconds > 0)
        };
        let or_default = |timeout: Option<GoDuration>, default| match timeout {
            None => Some(default),
            some => seconds(some),
        };
        let verbosity = logging.as_ref().and_then(|logging| logging.verbosity);
        let mut settings = Self {
            from_file,
            is_verbose: verbosity.is_some_and(|verbosity| verbosity >= DEBUG_VERBOSITY),
            oom_score: *oom_score_adj,
            warnings,
            unknown: Vec::new(),
            configuration: configuration.clone(),
            netfilter: NetfilterConntrack {
                tcp_be_liberal: conntrack.tcp_be_liberal == Some(true),
                max: conntrack_max(&conntrack, from_file, processors()),
                ..NetfilterConntrack::default()
            },
            ..Self::default()
        };
        if from_file {
            let is_v6 = bind_address
                .as_ref()
                .is_some_and(|address| address.contains(':'));
            let address = |text: &Option<String>, v4: SocketAddr, v6: &str| -> Result<SocketAddr> {
                let text = text.as_deref().unwrap_or_default();
                let said = BindAddress::parse(text, v4.port()).map_err(anyhow::Error::msg)?;
                Ok(match said {
                    BindAddress(Some(address)) => address,
                    BindAddress(None) if is_v6 => SocketAddr::new(v6.parse()?, v4.port()),
                    BindAddress(None) => v4,
                })
            };
            settings.health = Some(address(healthz_bind_address, HEALTH, "::")?);
            settings.metrics = Some(address(metrics_bind_address, METRICS, "::1")?);
            settings.hard_fail = bind_address_hard_fail.unwrap_or_default();
            settings.oom_score = Some(oom_score_adj.unwrap_or(OOM_SCORE));
            settings.tcp_established = seconds(conntrack.tcp_established_timeout);
            settings.tcp_close_wait = seconds(conntrack.tcp_close_wait_timeout);
            settings.udp = seconds(conntrack.udp_timeout);
            settings.udp_stream = seconds(conntrack.udp_stream_timeout);
            settings.netfilter = NetfilterConntrack {
                tcp_established: or_default(conntrack.tcp_established_timeout, TCP_ESTABLISHED),
                tcp_close_wait: or_default(conntrack.tcp_close_wait_timeout, TCP_CLOSE_WAIT),
                udp: settings.udp,
                udp_stream: settings.udp_stream,
                ..settings.netfilter
            };
        }
        Ok(settings)
    }

    /// Returns the settings of the cluster's source, by a file or else by flags.
    ///
    /// # Errors
    ///
    /// The NodePort addresses are none.
    pub(crate) fn kubernetes(&self, flags: KubernetesArgs) -> Result<KubernetesArgs> {
        let flags = flags.with(self.beside());
        if !self.from_file {
            return Ok(flags);
        }
        let KubeProxyConfiguration {
            client_connection,
            hostname_override,
            node_port_addresses,
            ..
        } = self.configuration.clone();
        let said = |text: Option<String>| text.filter(|text| !text.is_empty());
        let kubeconfig = client_connection.and_then(|client| said(client.kubeconfig));
        flags.configured(
            kubeconfig.map(PathBuf::from),
            said(hostname_override),
            &node_port_addresses.unwrap_or_default(),
        )
    }

    /// Returns the settings of the node, and of its Services, by a file or else by flags.
    fn beside(&self) -> Beside {
        let KubeProxyConfiguration {
            bind_address,
            feature_gates,
            ..
        } = &self.configuration;
        let address = bind_address.as_deref().and_then(|text| text.parse().ok());
        let gate = feature_gates
            .as_ref()
            .and_then(|gates| gates.get(EXTERNAL_IPS));
        Beside {
            node_ip: address.filter(|address: &IpAddr| !address.is_unspecified()),
            ignores_external_ips: gate == Some(&false),
        }
    }

    /// Returns the addresses of health and metrics, by a file or else by flags; kube-proxy's if neither has one and a
    /// cluster is followed. The address of probes is the flag's alone.
    pub(crate) fn http(&self, flags: &HttpArgs, follows_cluster: bool) -> HttpArgs {
        if !self.from_file {
            let default = |address| follows_cluster.then_some(BindAddress(Some(address)));
            return HttpArgs {
                healthz: flags.healthz.or_else(|| default(HEALTH)),
                metrics: flags.metrics.or_else(|| default(METRICS)),
                probes: flags.probes,
                hard_fail: flags.hard_fail,
            };
        }
        HttpArgs {
            healthz: Some(BindAddress(self.health)),
            metrics: flags.metrics.or(Some(BindAddress(self.metrics))),
            probes: flags.probes,
            hard_fail: self.hard_fail.into(),
        }
    }

    /// Returns the settings that identify this node's pods, by a file or else by flags.
    ///
    /// # Errors
    ///
    /// A range is none.
    pub(crate) fn detect_local(&self, flags: DetectLocalArgs) -> Result<DetectLocalArgs> {
        if !self.from_file {
            return Ok(flags);
        }
        let KubeProxyConfiguration {
            detect_local_mode,
            detect_local,
            cluster_cidr,
            ..
        } = self.configuration.clone();
        let DetectLocal {
            bridge_interface,
            interface_name_prefix,
        } = detect_local.unwrap_or_default();
        DetectLocalArgs::configured(
            &detect_local_mode.unwrap_or_default(),
            &cluster_cidr.unwrap_or_default(),
            bridge_interface,
            interface_name_prefix,
        )
    }

    /// Returns whether all connections to ClusterIPs are masqueraded, by a file or else by a flag.
    pub(crate) fn masquerade_all(&self, flag: bool) -> bool {
        if self.from_file {
            masquerades_all(&self.configuration)
        } else {
            flag
        }
    }

    /// Returns whether the node's loopback addresses have NodePorts, by a file or else by a flag. In the mode nftables,
    /// whose section has no such field, the flag counts.
    pub(crate) fn localhost_node_ports(&self, flag: bool) -> bool {
        let KubeProxyConfiguration { mode, iptables, .. } = &self.configuration;
        if !self.from_file || mode.as_deref() == Some("nftables") {
            return flag;
        }
        iptables
            .as_ref()
            .and_then(|section| section.localhost_node_ports)
            .unwrap_or(flag)
    }

    /// The timeouts of the agent's own table, by a file or else by flags.
    pub(crate) fn timeouts(&self, flags: Timeouts) -> Timeouts {
        if !self.from_file {
            return flags;
        }
        let defaults = Timeouts::default();
        Timeouts {
            tcp_established: self.tcp_established.unwrap_or(defaults.tcp_established),
            tcp_closing: self.tcp_close_wait.unwrap_or(defaults.tcp_closing),
            udp: self.udp.unwrap_or(defaults.udp),
            udp_stream: self.udp_stream.unwrap_or(defaults.udp_stream),
            ..flags
        }
    }

    /// Returns the answer of `/configz`: the settings in effect that have a field.
    pub(crate) fn configz(&self, http: &HttpArgs, timeouts: Timeouts) -> String {
        let HttpArgs {
            healthz,
            metrics,
            probes: _,
            hard_fail,
        } = http;
        let address = |bound: &Option<BindAddress>| {
            let address = bound.and_then(|BindAddress(address)| address);
            Some(address.map_or_else(String::new, |address| address.to_string()))
        };
        let seconds = |seconds| Some(GoDuration::seconds(seconds));
        let configuration = KubeProxyConfiguration {
            api_version: Some(API_VERSION.to_owned()),
            kind: Some(KIND.to_owned()),
            mode: Some("shunt".to_owned()),
            feature_gates: self.configuration.feature_gates.clone(),
            bind_address: self.configuration.bind_address.clone(),
            healthz_bind_address: address(healthz),
            metrics_bind_address: address(metrics),
            bind_address_hard_fail: Some(hard_fail.is_on()),
            detect_local_mode: self.configuration.detect_local_mode.clone(),
            detect_local: self.configuration.detect_local.clone(),
            cluster_cidr: self.configuration.cluster_cidr.clone(),
            nftables: Some(Nftables {
                masquerade_all: Some(masquerades_all(&self.configuration)),
                ..Nftables::default()
            }),
            oom_score_adj: self.oom_score,
            logging: self.is_verbose.then(|| Logging {
                verbosity: Some(DEBUG_VERBOSITY),
                ..Logging::default()
            }),
            conntrack: Some(Conntrack {
                tcp_established_timeout: seconds(timeouts.tcp_established),
                tcp_close_wait_timeout: seconds(timeouts.tcp_closing),
                udp_timeout: seconds(timeouts.udp),
                udp_stream_timeout: seconds(timeouts.udp_stream),
                tcp_be_liberal: Some(self.netfilter.tcp_be_liberal),
                ..Conntrack::default()
            }),
            ..KubeProxyConfiguration::default()
        };
        json!({ "kubeproxy.config.k8s.io": configuration }).to_string()
    }
}

/// Returns whether the section of the configured mode has `masqueradeAll`.
fn masquerades_all(configuration: &KubeProxyConfiguration) -> bool {
    let KubeProxyConfiguration {
        mode,
        iptables,
        nftables,
        ..
    } = configuration;
    let is_asked = if mode.as_deref() == Some("nftables") {
        nftables.as_ref().and_then(|section| section.masquerade_all)
    } else {
        iptables.as_ref().and_then(|section| section.masquerade_all)
    };
    is_asked.unwrap_or_default()
}

/// Returns the number of connections that the kernel is to track at least, on a machine of so many processors. Without
/// a file there is none unless a flag sets it.
fn conntrack_max(conntrack: &Conntrack, from_file: bool, processors: u32) -> Option<u32> {
    let Conntrack {
        max_per_core, min, ..
    } = conntrack;
    if !from_file && max_per_core.is_none() && min.is_none() {
        return None;
    }
    let of = |number: &Option<i32>, default| number.map_or(default, |number| number.max(0) as u32);
    let scaled = of(max_per_core, MAX_PER_CORE).saturating_mul(processors);
    // kube-proxy's maxPerCore of 0 leaves all as it is.
    (scaled > 0).then(|| scaled.max(of(min, LEAST)))
}

/// Returns the number of processors of the machine, whatever share of them is ours.
fn processors() -> u32 {
    let online = sysconf(SysconfVar::_NPROCESSORS_ONLN);
    let online = online
        .ok()
        .flatten()
        .and_then(|count| u32::try_from(count).ok());
    online.unwrap_or(1)
}

/// Returns the warnings about settings that do nothing here.
///
/// # Errors
///
/// Some of them are refused.
fn effects(
    configuration: &KubeProxyConfiguration,
    flags: &KubeProxyFlags,
    from_file: bool,
) -> Result<Vec<String>> {
    let reading = Reading::of(configuration);
    let (mut ignored, mut refused) = (Vec::new(), Vec::new());
    for setting in SETTINGS {
        let flag = flags
            .given
            .iter()
            .find(|(given, _)| given.flag == setting.flag);
        let flag = flag.filter(|_| !setting.flag.is_empty());
        let is_said = match flag {
            Some((_, values)) if setting.field.is_empty() => {
                let says_no = values.iter().all(|value| value == "false");
                !says_no && !values.iter().all(|value| setting.is_default(value))
            }
            _ => reading.said(setting).is_some(),
        };
        if !is_said {
            continue;
        }
        let name = match flag {
            Some((Setting { flag, .. }, _)) => format!("--{flag}"),
            None if from_file || setting.flag.is_empty() => setting.field.to_owned(),
            None => format!("--{}", setting.flag),
        };
        match setting.effect {
            Effect::Honoured(_) => {}
            Effect::Ignored(why) => ignored.push(format!("{name} has no effect: {why}")),
            Effect::Refused(why) => refused.push(format!("{name}: {why}")),
        }
    }
    if !refused.is_empty() {
        bail!("{}", refused.join("; "));
    }
    Ok(ignored)
}

#[cfg(test)]
mod tests;
