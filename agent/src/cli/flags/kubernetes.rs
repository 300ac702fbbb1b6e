//! Where services come from in a cluster.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, Error, Result};
use clap::Args;
use shunt::kubernetes::{ApiServer, KubernetesOptions, NodePortAddresses, node_name};
use shunt_model::Forwarding;

/// Where the host's name is, as gethostname(2) has it.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// How a Kubernetes cluster is followed, and what of it.
#[derive(Debug, Clone, Args)]
pub(crate) struct KubernetesArgs {
    /// Translate the Services of a Kubernetes cluster, as its API server tells of them: in place of
    /// kube-proxy
    #[arg(long, conflicts_with = "events")]
    kubernetes: bool,

    /// How the API server is reached [default: as every pod of the cluster does]
    #[arg(id = "kubeconfig", long, value_name = "FILE", requires = "kubernetes")]
    kubeconfig: Option<PathBuf>,

    /// Where the API server is, in place of what is configured. It has to be reachable without
    /// translation: none is there before this agent
    #[arg(long, value_name = "URL", requires = "kubernetes")]
    kube_apiserver: Option<String>,

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

    /// Which of this node's addresses carry NodePorts: primary is the Node's first address of each
    /// family; or those within CIDRs, separated by commas
    #[arg(
        id = "nodeport-addresses",
        long,
        value_name = "primary|CIDR,...",
        default_value = "primary",
        requires = "kubernetes"
    )]
    node_port_addresses: NodePortAddresses,

    /// Translate the NodePorts of the other nodes, too, for clients of this node; follows all Nodes
    #[arg(long, requires = "kubernetes")]
    remote_node_ports: bool,
}

impl KubernetesArgs {
    /// Whether a cluster is followed.
    pub(crate) const fn is_on(&self) -> bool {
        self.kubernetes
    }

    /// With what a configuration of kube-proxy says in place of the flags.
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
            hostname_override: hostname.or(self.hostname_override),
            node_port_addresses: if given.is_empty() {
                self.node_port_addresses
            } else {
                given.parse().map_err(Error::msg)?
            },
            ..self
        })
    }

    /// The source's settings, if there is to be one; `forwarding` is the default.
    pub(crate) fn options(self, forwarding: Forwarding) -> Result<Option<KubernetesOptions>> {
        let Self {
            kubernetes,
            kubeconfig,
            kube_apiserver,
            hostname_override,
            service_proxy_name,
            node_port_addresses,
            remote_node_ports,
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
                url: kube_apiserver,
            },
            node_name,
            proxy_name: service_proxy_name,
            node_port_addresses,
            remote_node_ports,
            forwarding,
        }))
    }
}
