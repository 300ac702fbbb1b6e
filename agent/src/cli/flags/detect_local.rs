//! Detection of this node's pods: kube-proxy's flags.

use anyhow::{Error, Result, bail};
use clap::{Args, ValueEnum};
use ipnet::IpNet;
use shunt_datapath::{Families, PodDetection, PodInterfaces};

use crate::cli::flags::cidr::cidr;

/// Mode of detecting this node's pods, by kube-proxy's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// The cluster's range of pod addresses (--cluster-cidr)
    #[value(name = "ClusterCIDR")]
    ClusterCidr,
    /// This node's ranges of pod addresses (--pod-cidr, or those of its Node)
    #[value(name = "NodeCIDR")]
    NodeCidr,
    /// The bridge that the packet came in by (--pod-bridge-interface)
    #[value(name = "BridgeInterface")]
    BridgeInterface,
    /// The name of the interface that it came in by (--pod-interface-name-prefix)
    #[value(name = "InterfaceNamePrefix")]
    InterfaceNamePrefix,
}

/// Use of the ranges of this node's Node, where no flag gives its pods' ranges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeRanges {
    /// The agent is to know its pods by them.
    Needed,
    /// Nothing else identifies its pods.
    Welcome,
    /// Something else does.
    Unused,
}

/// Detection of this node's pods.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "This node")]
pub(crate) struct DetectLocalArgs {
    /// Mode of detecting this node's pods among all clients; the ranges of --pod-cidr count in any case [default:
    /// ClusterCIDR with --cluster-cidr, else NodeCIDR, if its Node has ranges]
    #[arg(id = "detect-local-mode", long, value_name = "MODE", value_enum)]
    detect_local_mode: Option<Mode>,

    /// The range of the cluster's pod addresses, one for each family, separated by a comma
    #[arg(
        id = "cluster-cidr",
        long,
        value_name = "CIDR",
        value_delimiter = ',',
        value_parser = cidr
    )]
    cluster_cidrs: Vec<IpNet>,

    /// Bridge with this node's pods, and nothing else, behind it
    #[arg(id = "pod-bridge-interface", long, value_name = "NAME")]
    pod_bridge_interface: Option<String>,

    /// Prefix of the names of the interfaces to this node's pods, and of no others
    #[arg(id = "pod-interface-name-prefix", long, value_name = "PREFIX")]
    pod_interface_name_prefix: Option<String>,
}

impl DetectLocalArgs {
    /// Returns the flags of a configuration of kube-proxy: `ClusterCIDR` is its default, also without a range, and
    /// identifies no pods then.
    ///
    /// # Errors
    ///
    /// There is no such mode, or a range is none.
    pub(crate) fn configured(
        mode: &str,
        cluster_cidr: &str,
        bridge: Option<String>,
        prefix: Option<String>,
    ) -> Result<Self> {
        let cidrs = cluster_cidr.split(',').filter(|cidr| !cidr.is_empty());
        Ok(Self {
            detect_local_mode: match mode {
                "" | "ClusterCIDR" => None,
                mode => Some(Mode::from_str(mode, false).map_err(Error::msg)?),
            },
            cluster_cidrs: cidrs.map(str::parse).collect::<Result<_, _>>()?,
            pod_bridge_interface: bridge,
            pod_interface_name_prefix: prefix,
        })
    }

    /// Returns the use of the ranges of this node's Node.
    pub(crate) fn node_ranges(&self) -> NodeRanges {
        match self.detect_local_mode {
            Some(Mode::NodeCidr) => NodeRanges::Needed,
            None if self.cluster_cidrs.is_empty() => NodeRanges::Welcome,
            _ => NodeRanges::Unused,
        }
    }

    /// Returns the detection of this node's pods, of whose addresses `pod_cidrs` is known, and to which packets are
    /// handed if it `redirects`. The settings of another mode have no effect. `families` are translated.
    ///
    /// # Errors
    ///
    /// What the mode needs is not there; or a redirect, where a pod of this node is.
    pub(crate) fn detection(
        self,
        pod_cidrs: &[IpNet],
        redirects: bool,
        families: Families,
    ) -> Result<PodDetection> {
        let detection = self.by_mode(pod_cidrs, families)?;
        if redirects && pod_cidrs.is_empty() && !detection.interfaces.are_known() {
            bail!("--redirect needs --pod-cidr, or --detect-local-mode with the pods' interfaces");
        }
        Ok(detection)
    }

    fn by_mode(self, pod_cidrs: &[IpNet], families: Families) -> Result<PodDetection> {
        let Self {
            detect_local_mode,
            cluster_cidrs,
            pod_bridge_interface,
            pod_interface_name_prefix,
        } = self;
        let given = |name: Option<String>, flag, mode| match name {
            Some(name) if !name.is_empty() => Ok(name),
            _ => bail!("--detect-local-mode {mode} needs {flag}"),
        };
        Ok(match detect_local_mode {
            None if cluster_cidrs.is_empty() => PodDetection::default(),
            None | Some(Mode::ClusterCidr) => {
                check_families(&cluster_cidrs)?;
                check_stack("--cluster-cidr", &cluster_cidrs, families)?;
                if cluster_cidrs.is_empty() && pod_cidrs.is_empty() {
                    bail!("--detect-local-mode ClusterCIDR needs --cluster-cidr");
                }
                PodDetection {
                    cluster_cidrs,
                    interfaces: PodInterfaces::None,
                }
            }
            Some(Mode::NodeCidr) => {
                if pod_cidrs.is_empty() {
                    bail!(
                        "--detect-local-mode NodeCIDR needs --pod-cidr, or a Node with \
                         spec.podCIDRs"
                    );
                }
                check_stack("--detect-local-mode NodeCIDR", pod_cidrs, families)?;
                PodDetection::default()
            }
            Some(Mode::BridgeInterface) => by_interface(PodInterfaces::Bridge(given(
                pod_bridge_interface,
                "--pod-bridge-interface",
                "BridgeInterface",
            )?)),
            Some(Mode::InterfaceNamePrefix) => by_interface(PodInterfaces::Prefix(given(
                pod_interface_name_prefix,
                "--pod-interface-name-prefix",
                "InterfaceNamePrefix",
            )?)),
        })
    }
}

fn by_interface(interfaces: PodInterfaces) -> PodDetection {
    PodDetection {
        cluster_cidrs: Vec::new(),
        interfaces,
    }
}

/// As kube-proxy: one range, or two of different families.
fn check_families(ranges: &[IpNet]) -> Result<()> {
    let v4 = ranges
        .iter()
        .filter(|range| matches!(range, IpNet::V4(_)))
        .count();
    if v4 > 1 || ranges.len() - v4 > 1 {
        bail!("--cluster-cidr takes one range of each family");
    }
    Ok(())
}

/// As kube-proxy on a node of one family: ranges of the other alone identify no pod.
fn check_stack(what: &str, ranges: &[IpNet], families: Families) -> Result<()> {
    let Families { ipv4, ipv6 } = families;
    let is_of_node = |range: &IpNet| if range.addr().is_ipv4() { ipv4 } else { ipv6 };
    if !ranges.is_empty() && !ranges.iter().any(is_of_node) {
        let (other, own) = if ipv4 {
            ("IPv6", "IPv4")
        } else {
            ("IPv4", "IPv6")
        };
        bail!(
            "{what} has {other} ranges alone, and this node translates {own} alone \
             (--ip-families): none of its pods would be known"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        pods: DetectLocalArgs,
    }

    fn detection(arguments: &[&str], pod_cidrs: &[&str]) -> Result<PodDetection, String> {
        detect(arguments, pod_cidrs, false)
    }

    fn detect(
        arguments: &[&str],
        pod_cidrs: &[&str],
        redirects: bool,
    ) -> Result<PodDetection, String> {
        detect_on(BOTH, arguments, pod_cidrs, redirects)
    }

    const BOTH: Families = Families {
        ipv4: true,
        ipv6: true,
    };

    fn detect_on(
        families: Families,
        arguments: &[&str],
        pod_cidrs: &[&str],
        redirects: bool,
    ) -> Result<PodDetection, String> {
        let arguments = ["agent"].iter().chain(arguments);
        let flags = Flags::try_parse_from(arguments).map_err(|error| error.to_string())?;
        let pod_cidrs: Vec<IpNet> = pod_cidrs.iter().map(|text| text.parse().unwrap()).collect();
        flags
            .pods
            .detection(&pod_cidrs, redirects, families)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn ranges_of_the_other_family_alone_are_refused_on_a_node_of_one() {
        let v4_only = Families {
            ipv6: false,
            ..BOTH
        };
        let v6_only = Families {
            ipv4: false,
            ..BOTH
        };
        let by_node = "--detect-local-mode=NodeCIDR";
        for (families, arguments, pod_cidrs, words) in [
            (
                v4_only,
                &["--cluster-cidr=fd00::/56"][..],
                &[][..],
                Some("--cluster-cidr has IPv6 ranges alone, and this node translates IPv4 alone"),
            ),
            (v4_only, &["--cluster-cidr=fd00::/56,10.0.0.0/8"], &[], None),
            (BOTH, &["--cluster-cidr=fd00::/56"], &[], None),
            (
                v6_only,
                &[by_node],
                &["10.1.1.0/24"],
                Some("NodeCIDR has IPv4 ranges alone, and this node translates IPv6 alone"),
            ),
            (v6_only, &[by_node], &["10.1.1.0/24", "fd00::/64"], None),
            (v6_only, &[], &["10.1.1.0/24"], None),
        ] {
            let found = detect_on(families, arguments, pod_cidrs, false);
            match words {
                None => assert!(found.is_ok(), "{arguments:?}: {found:?}"),
                Some(words) => {
                    let error = found.unwrap_err();
                    assert!(error.contains(words), "{arguments:?}: {error}");
                }
            }
        }
    }

    #[test]
    fn the_ranges_of_the_node_are_asked_for_where_nothing_else_tells_its_pods() {
        let prefix = "--pod-interface-name-prefix=cali";
        for (arguments, expected) in [
            (&[][..], NodeRanges::Welcome),
            (&["--detect-local-mode=NodeCIDR"], NodeRanges::Needed),
            (&["--cluster-cidr=10.0.0.0/8"], NodeRanges::Unused),
            (
                &["--detect-local-mode=InterfaceNamePrefix", prefix],
                NodeRanges::Unused,
            ),
        ] {
            let arguments = ["agent"].iter().chain(arguments);
            let flags = Flags::try_parse_from(arguments).unwrap();
            assert_eq!(flags.pods.node_ranges(), expected);
        }
        // A file has kube-proxy's default, with a range or without.
        for (cidr, expected) in [
            ("", NodeRanges::Welcome),
            ("10.0.0.0/8", NodeRanges::Unused),
        ] {
            let args = DetectLocalArgs::configured("ClusterCIDR", cidr, None, None).unwrap();
            assert_eq!(args.node_ranges(), expected);
        }
    }

    #[test]
    fn each_mode_takes_what_it_needs_and_leaves_the_rest() {
        let cluster = |ranges: &[&str]| PodDetection {
            cluster_cidrs: ranges.iter().map(|text| text.parse().unwrap()).collect(),
            interfaces: PodInterfaces::None,
        };
        let all = [
            "--cluster-cidr=10.244.0.0/16,fd00:10::/56",
            "--pod-bridge-interface=cni0",
            "--pod-interface-name-prefix=cali",
        ];
        let both = cluster(&["10.244.0.0/16", "fd00:10::/56"]);
        for (mode, expected) in [
            (None, both.clone()),
            (Some("ClusterCIDR"), both),
            (Some("NodeCIDR"), PodDetection::default()),
            (
                Some("BridgeInterface"),
                by_interface(PodInterfaces::Bridge("cni0".to_owned())),
            ),
            (
                Some("InterfaceNamePrefix"),
                by_interface(PodInterfaces::Prefix("cali".to_owned())),
            ),
        ] {
            let mode = mode.map(|mode| format!("--detect-local-mode={mode}"));
            let arguments: Vec<&str> = all.iter().copied().chain(mode.as_deref()).collect();
            assert_eq!(detection(&arguments, &["10.244.1.0/24"]), Ok(expected));
        }
        assert_eq!(detection(&[], &[]), Ok(PodDetection::default()));
    }

    #[test]
    fn a_mode_without_what_it_needs_is_refused_with_the_flag() {
        for (arguments, missing) in [
            (&["--detect-local-mode=ClusterCIDR"][..], "--cluster-cidr"),
            (&["--detect-local-mode=NodeCIDR"], "--pod-cidr"),
            (
                &["--detect-local-mode=BridgeInterface"],
                "--pod-bridge-interface",
            ),
            (
                &[
                    "--detect-local-mode=InterfaceNamePrefix",
                    "--pod-interface-name-prefix=",
                ],
                "--pod-interface-name-prefix",
            ),
            (
                &["--cluster-cidr=10.0.0.0/8,192.168.0.0/16"],
                "one range of each family",
            ),
            (&["--detect-local-mode=clustercidr"], "InterfaceNamePrefix"),
        ] {
            let error = detection(arguments, &[]).unwrap_err();
            assert!(error.contains(missing), "{arguments:?}: {error}");
        }
    }

    #[test]
    fn a_redirect_needs_to_know_where_pods_are_and_not_only_who_is_one() {
        let prefix = [
            "--detect-local-mode=InterfaceNamePrefix",
            "--pod-interface-name-prefix=cali",
        ];
        assert!(detect(&prefix, &[], true).is_ok());
        assert!(detect(&[], &["10.1.1.0/24"], true).is_ok());
        for arguments in [&[][..], &["--cluster-cidr=10.1.0.0/16"]] {
            let error = detect(arguments, &[], true).unwrap_err();
            assert!(error.starts_with("--redirect needs --pod-cidr"), "{error}");
        }
    }
}
