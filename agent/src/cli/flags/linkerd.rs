//! The server of linkerd's destination API.

use anyhow::{Context as _, Result, ensure};
use clap::{Args, builder::NonEmptyStringValueParser};
use shunt_http::{ServeAddress, ServeListener};
use shunt_runtime::Inspector;
use shunt_serve::{CallLimits, LinkerdServer, LinkerdSettings, MeshSettings, OpaquePorts};

use crate::cli::flags::switch::Switch;

/// linkerd's destination API.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "linkerd's destination API")]
#[command(mut_arg("linkerd_ipv6", Switch::flag))]
pub(crate) struct LinkerdArgs {
    /// Address of linkerd's destination API: IP:port, as in 127.0.0.1:8086, or unix:PATH. Every client that reaches it
    /// receives all services [default: nowhere]
    #[arg(long, value_name = "ADDRESS")]
    linkerd_api: Option<ServeAddress>,

    /// --linkerd-api may be an address that other hosts get to
    #[arg(long, requires = "linkerd_api")]
    linkerd_api_remote: bool,

    /// Suffix of the names of the cluster's services, also in the names of ServiceProfiles
    #[arg(long, value_name = "DOMAIN", default_value = "cluster.local")]
    linkerd_cluster_domain: String,

    /// Ports that linkerd's proxies are not to look into where neither the service nor the pod names its own: ports and
    /// ranges of them, separated by commas
    #[arg(long, value_name = "PORTS", default_value = OpaquePorts::DEFAULT)]
    linkerd_opaque_ports: OpaquePorts,

    /// Trust domain of linkerd's identities: proxies then get the identities of meshed pods, and hints for connections
    /// to them. If it is wrong, every connection to a meshed pod fails [default: none is sent]
    #[arg(long, value_name = "DOMAIN", requires = "linkerd_control_plane_namespace",
          value_parser = NonEmptyStringValueParser::new())]
    linkerd_trust_domain: Option<String>,

    /// Namespace of linkerd's control plane, which is a part of the identities
    #[arg(long, value_name = "NAMESPACE", requires = "linkerd_trust_domain",
          value_parser = NonEmptyStringValueParser::new())]
    linkerd_control_plane_namespace: Option<String>,

    /// Services have endpoints of IPv6 for clients of --linkerd-api, as with linkerd's disableIPv6 off
    #[arg(long, value_name = "BOOL", default_value_t = Switch::ON)]
    linkerd_ipv6: Switch,

    /// Maximum number of connections at --linkerd-api. If all are taken, one without a call gives way
    #[arg(long, value_name = "N", default_value_t = 1024, requires = "linkerd_api",
          value_parser = clap::value_parser!(u32).range(8..))]
    max_linkerd_connections: u32,

    /// Maximum number of calls at --linkerd-api that proxies follow: two for each destination of a proxy
    #[arg(long, value_name = "N", default_value_t = 16_384, requires = "linkerd_api",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    max_linkerd_streams: u32,

    /// Maximum size of what clients of --linkerd-api have not read, in MiB: if others need the room, a call ends whose
    /// client has read nothing for 5 s
    #[arg(long, value_name = "MIB", default_value_t = 64, requires = "linkerd_api",
          value_parser = clap::value_parser!(u32).range(1..))]
    max_linkerd_unread: u32,
}

impl LinkerdArgs {
    /// Returns the suffix of the names of the cluster's services.
    pub(crate) fn cluster_domain(&self) -> &str {
        &self.linkerd_cluster_domain
    }

    /// Listens, if an address is given.
    ///
    /// # Errors
    ///
    /// The address cannot be had, or others get to it and no flag permits that.
    pub(crate) async fn listen(self) -> Result<LinkerdPlace> {
        let Self {
            linkerd_api,
            linkerd_api_remote,
            linkerd_cluster_domain,
            linkerd_opaque_ports,
            linkerd_trust_domain,
            linkerd_control_plane_namespace,
            linkerd_ipv6,
            max_linkerd_connections,
            max_linkerd_streams,
            max_linkerd_unread,
        } = self;
        let Some(address) = linkerd_api else {
            return Ok(LinkerdPlace(None));
        };
        ensure!(
            linkerd_api_remote || address.is_of_this_host(),
            "--linkerd-api: other hosts get to {address}, and would be told of all services; \
             --linkerd-api-remote says that they may"
        );
        let listener = address.listen().await.context("--linkerd-api")?;
        let settings = LinkerdSettings {
            cluster_domain: linkerd_cluster_domain.into(),
            opaque_ports: linkerd_opaque_ports,
            mesh: linkerd_trust_domain
                .zip(linkerd_control_plane_namespace)
                .map(|(trust_domain, control_plane)| MeshSettings {
                    trust_domain: trust_domain.into(),
                    control_plane: control_plane.into(),
                }),
            ipv6: linkerd_ipv6.is_on(),
        };
        let limits = CallLimits::new(
            max_linkerd_connections,
            max_linkerd_streams,
            max_linkerd_unread,
        );
        Ok(LinkerdPlace(Some((listener, limits, settings))))
    }
}

/// Place where the API is going to be served, if anywhere.
#[derive(Debug)]
pub(crate) struct LinkerdPlace(Option<(ServeListener, CallLimits, LinkerdSettings)>);

impl LinkerdPlace {
    /// Begins to serve what the inspector finds.
    ///
    /// # Errors
    ///
    /// There is no room for its threads.
    pub(crate) fn serve(self, inspector: &Inspector) -> Result<Option<LinkerdServer>> {
        let Self(place) = self;
        place
            .map(|(listener, limits, settings)| {
                LinkerdServer::start(listener, limits, inspector.clone(), settings)
            })
            .transpose()
            .context("cannot serve linkerd's destination API")
    }
}
