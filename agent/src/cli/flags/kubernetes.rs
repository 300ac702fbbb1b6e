//! The source of services in a cluster.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    path::PathBuf,
};

use anyhow::{Context as _, Error, Result};
use clap::{Args, ValueEnum};
use shunt_datapath::{Families, TableSizes};
use shunt_kubernetes::{
    ApiServer, KubernetesOptions, Limits, LookupPods, NodePortAddresses, node_name,
};
use shunt_model::Forwarding;

use crate::cli::flags::switch::Switch;

/// File with the host's name, as gethostname(2) has it.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// Settings of a Kubernetes cluster as a source.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Kubernetes")]
pub(crate) struct KubernetesArgs {
    /// Translate the Services of a Kubernetes cluster, as its API server reports them: in place of kube-proxy
    #[arg(long, conflicts_with = "events")]
    kubernetes: bool,

    /// Kubeconfig for access to the API server [default: access as every pod of the cluster has it]
    #[arg(id = "kubeconfig", long, value_name = "FILE", requires = "kubernetes")]
    kubeconfig: Option<PathBuf>,

    /// Address of the API server, in place of the configured one. It has to be reachable without translation: none is
    /// there before this agent
    #[arg(long, value_name = "URL", requires = "kubernetes")]
    kube_apiserver: Option<String>,

    /// kube-proxy's name of --kube-apiserver
    #[arg(
        id = "master",
        long,
        value_name = "URL",
        hide = true,
        requires = "kubernetes",
        conflicts_with = "kube_apiserver"
    )]
    master: Option<String>,

    /// The name of this node's Node [default: the host's name]
    #[arg(
        id = "hostname-override",
        long,
        value_name = "NAME",
        requires = "kubernetes"
    )]
    hostname_override: Option<String>,

    /// Serve only the Services with this value of the label
    /// service.kubernetes.io/service-proxy-name, which the cluster's own proxy leaves alone
    /// [default: only those without this label]
    #[arg(long, value_name = "NAME", requires = "kubernetes")]
    service_proxy_name: Option<String>,

    /// Addresses of this node that carry NodePorts: primary is the Node's first address of each family; or those within
    /// CIDRs, separated by commas
    #[arg(
        id = "nodeport-addresses",
        long,
        value_name = "primary|CIDR,...",
        default_value = "primary",
        requires = "kubernetes"
    )]
    node_port_addresses: NodePortAddresses,

    /// Heed the annotation service.shunt.io/forwarding of Services. A Service in mode dsr has the agents follow all Nodes
    #[arg(
        id = "forwarding-annotation",
        long,
        value_name = "BOOL",
        default_value_t = Switch::ON,
        hide_default_value = true,
        requires = "kubernetes"
    )]
    forwarding_annotation: Switch,

    /// Leave external addresses out that are a node's, at the port of a kubelet or of the API server there
    #[arg(
        id = "protect-host-ports",
        long,
        value_name = "BOOL",
        default_value_t = Switch::ON,
        hide_default_value = true,
        requires = "kubernetes"
    )]
    protect_host_ports: Switch,

    /// Translate the NodePorts of the other nodes, too, for clients of this node; follows all Nodes
    #[arg(long, requires = "kubernetes")]
    remote_node_ports: bool,

    /// Pods that `shunt lookup` knows: none, those of this node, or all, and with these the ExternalWorkloads. Follows
    /// these objects, which the agent has to be allowed to list and watch
    #[arg(
        long,
        value_enum,
        value_name = "PODS",
        default_value_t = PodsArg::Off,
        requires = "kubernetes"
    )]
    lookup_pods: PodsArg,

    #[arg(skip)]
    beside: Beside,
}

/// Pods that lookups know.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum PodsArg {
    /// None
    Off,
    /// Pods of this node
    Node,
    /// Pods of all nodes, and machines outside the cluster
    All,
}

impl From<PodsArg> for LookupPods {
    fn from(pods: PodsArg) -> Self {
        match pods {
            PodsArg::Off => Self::Off,
            PodsArg::Node => Self::Node,
            PodsArg::All => Self::All,
        }
    }
}

/// Settings of kube-proxy's configuration for it that have no flag of this agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Beside {
    /// This node's address of its family, in place of its Node's.
    pub(crate) node_ip: Option<IpAddr>,
    /// True if the external IPs of Services are left alone.
    pub(crate) ignores_external_ips: bool,
}

impl KubernetesArgs {
    /// Returns whether a cluster is followed.
    pub(crate) const fn is_on(&self) -> bool {
        self.kubernetes
    }

    /// Returns whether all Services of the cluster are this agent's: no other proxy serves some of them.
    pub(crate) const fn serves_all(&self) -> bool {
        self.kubernetes && self.service_proxy_name.is_none()
    }

    /// Replaces flags by a configuration of kube-proxy.
    ///
    /// # Errors
    ///
    /// The NodePort addresses are none.
    pub(crate) fn configured(
        self,
        kubeconfig: Option<PathBuf>,
        hostname: Option<String>,
        node_port_addresses: &[String],
    ) -> Result<Self> {
        let given = node_port_addresses.join(",");
        Ok(Self {
            kubeconfig: kubeconfig.or(self.kubeconfig),
            // As kube-proxy: the file alone has it.
            master: None,
            hostname_override: hostname.or(self.hostname_override),
            node_port_addresses: if given.is_empty() {
                self.node_port_addresses
            } else {
                given.parse().map_err(Error::msg)?
            },
            ..self
        })
    }

    /// The families whose loopback addresses may have NodePorts.
    pub(crate) fn local_node_ports(&self) -> Families {
        let may_have = |address| self.node_port_addresses.may_have_loopback(address);
        Families {
            ipv4: may_have(Ipv4Addr::LOCALHOST.into()),
            ipv6: may_have(Ipv6Addr::LOCALHOST.into()),
        }
    }

    /// Adds the other settings of kube-proxy's configuration.
    pub(crate) fn with(self, beside: Beside) -> Self {
        Self { beside, ..self }
    }

    /// The source's settings, if there is to be one; `forwarding` is the default, the tables have these `sizes`, and the
    /// names of services end with `cluster_domain`.
    pub(crate) fn options(
        self,
        forwarding: Forwarding,
        sizes: TableSizes,
        cluster_domain: &str,
    ) -> Result<Option<KubernetesOptions>> {
        let Self {
            kubernetes,
            kubeconfig,
            kube_apiserver,
            master,
            hostname_override,
            service_proxy_name,
            node_port_addresses,
            forwarding_annotation,
            protect_host_ports,
            remote_node_ports,
            lookup_pods,
            beside:
                Beside {
                    node_ip,
                    ignores_external_ips,
                },
        } = self;
        if !kubernetes {
            return Ok(None);
        }
        let host = fs::read_to_string(HOST_NAME)
            .with_context(|| format!("cannot read this host's name from {HOST_NAME}"))?;
        let node_name = node_name(hostname_override.as_deref(), &host)
            .context("the node's name is empty: give it with --hostname-override")?;
        Ok(Some(KubernetesOptions {
            api_server: ApiServer {
                kubeconfig,
                url: kube_apiserver.or(master),
            },
            node_name,
            proxy_name: service_proxy_name,
            node_port_addresses,
            remote_node_ports,
            node_ip,
            external_ips: !ignores_external_ips,
            protects_host_ports: protect_host_ports.is_on(),
            forwarding,
            forwarding_by_annotation: forwarding_annotation.is_on(),
            cluster_domain: cluster_domain.to_owned(),
            lookup_pods: lookup_pods.into(),
            limits: Limits {
                frontends: sizes.frontends,
                backends: sizes.backends,
            },
        }))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        kubernetes: KubernetesArgs,

        /// The agent's other flag.
        #[arg(long)]
        events: Option<PathBuf>,
    }

    fn parse(arguments: &[&str]) -> Result<KubernetesArgs, clap::Error> {
        let arguments = [&["agent", "--kubernetes"], arguments].concat();
        Flags::try_parse_from(arguments).map(|flags| flags.kubernetes)
    }

    #[test]
    fn the_api_server_has_kube_proxys_name_too() {
        let (ours, theirs) = (
            "--kube-apiserver=https://a.example",
            "--master=https://a.example",
        );
        for flag in [ours, theirs] {
            let options = parse(&[flag])
                .unwrap()
                .options(Forwarding::Snat, TableSizes::default(), "cluster.local")
                .unwrap();
            let url = options.unwrap().api_server.url;
            assert_eq!(url.as_deref(), Some("https://a.example"), "{flag}");
        }
        parse(&[ours, theirs]).unwrap_err();
        // A file alone counts then, but for what kube-proxy does not have.
        for (flag, expected) in [(ours, Some("https://a.example")), (theirs, None)] {
            let configured = parse(&[flag]).unwrap().configured(None, None, &[]).unwrap();
            let options = configured
                .options(Forwarding::Snat, TableSizes::default(), "cluster.local")
                .unwrap();
            assert_eq!(
                options.unwrap().api_server.url.as_deref(),
                expected,
                "{flag}"
            );
        }
    }

    #[test]
    fn a_proxys_name_leaves_services_to_others() {
        assert!(parse(&[]).unwrap().serves_all());
        assert!(!parse(&["--service-proxy-name=shunt"]).unwrap().serves_all());
    }
}
