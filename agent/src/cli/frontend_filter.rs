//! Filters for frontends.

use std::net::IpAddr;

use clap::{Args, ValueEnum};
use shunt_api::view;
use shunt_model::FrontendKind;

/// Filters for the frontends that are shown; all must match.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct FrontendFilter {
    /// Filter by namespace of the service
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,

    /// Filter by name of the service
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Filter by address of the frontend, or of a backend
    #[arg(long, value_name = "IP")]
    address: Option<IpAddr>,

    /// Filter by kind
    #[arg(long, value_enum, value_name = "KIND", ignore_case = true)]
    kind: Option<Kind>,

    /// Show only frontends that differ from the events, or have no backend that takes connections
    #[arg(long)]
    not_right: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    #[value(name = "ClusterIP")]
    ClusterIp,
    #[value(name = "NodePort")]
    NodePort,
    #[value(name = "ExternalIP")]
    ExternalIp,
    #[value(name = "LoadBalancerIP")]
    LoadBalancerIp,
}

impl From<Kind> for FrontendKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::ClusterIp => Self::ClusterIp,
            Kind::NodePort => Self::NodePort,
            Kind::ExternalIp => Self::ExternalIp,
            Kind::LoadBalancerIp => Self::LoadBalancerIp,
        }
    }
}

impl From<&FrontendFilter> for view::FrontendFilter {
    fn from(filter: &FrontendFilter) -> Self {
        let FrontendFilter {
            namespace,
            name,
            address,
            kind,
            not_right,
        } = filter;
        Self {
            namespace: namespace.clone(),
            name: name.clone(),
            address: *address,
            kind: kind.map(Into::into),
            not_right: *not_right,
        }
    }
}
