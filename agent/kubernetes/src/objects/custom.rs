//! Kinds of objects that a cluster has only if they are defined there (CustomResourceDefinition,
//! apiextensions.k8s.io/v1).

use serde::Deserialize;

use super::metadata::Metadata;

/// A kind that is followed where it is defined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum CustomKind {
    /// TCPRoute of the Gateway API.
    TcpRoute,
    /// UDPRoute of the Gateway API.
    UdpRoute,
    /// ReferenceGrant of the Gateway API.
    ReferenceGrant,
    /// TrafficSplit of the Service Mesh Interface.
    TrafficSplit,
    /// ServiceProfile of Linkerd.
    ServiceProfile,
    /// ExternalWorkload of our own group.
    ExternalWorkload,
    /// ExternalWorkload of Linkerd.
    LinkerdExternalWorkload,
    /// Server of Linkerd's policies.
    Server,
}

impl CustomKind {
    /// All of them.
    const ALL: [Self; 8] = [
        Self::TcpRoute,
        Self::UdpRoute,
        Self::ReferenceGrant,
        Self::TrafficSplit,
        Self::ServiceProfile,
        Self::ExternalWorkload,
        Self::LinkerdExternalWorkload,
        Self::Server,
    ];

    /// Kinds that share a service's connections out.
    pub(crate) const ROUTES: [Self; 5] = [
        Self::TcpRoute,
        Self::UdpRoute,
        Self::ReferenceGrant,
        Self::TrafficSplit,
        Self::ServiceProfile,
    ];

    /// Kinds of [`Self::ROUTES`], and those that lookups know besides.
    pub(crate) const WITH_LOOKUPS: [Self; 8] = Self::ALL;

    /// The name of its definition.
    pub(crate) const fn definition(self) -> &'static str {
        match self {
            Self::TcpRoute => "tcproutes.gateway.networking.k8s.io",
            Self::UdpRoute => "udproutes.gateway.networking.k8s.io",
            Self::ReferenceGrant => "referencegrants.gateway.networking.k8s.io",
            Self::TrafficSplit => "trafficsplits.split.smi-spec.io",
            Self::ServiceProfile => "serviceprofiles.linkerd.io",
            Self::ExternalWorkload => "externalworkloads.workload.shunt.io",
            Self::LinkerdExternalWorkload => "externalworkloads.workload.linkerd.io",
            Self::Server => "servers.policy.linkerd.io",
        }
    }

    /// Its objects, for the log.
    pub(crate) const fn plural(self) -> &'static str {
        match self {
            Self::TcpRoute => "TCPRoutes",
            Self::UdpRoute => "UDPRoutes",
            Self::ReferenceGrant => "ReferenceGrants",
            Self::TrafficSplit => "TrafficSplits",
            Self::ServiceProfile => "ServiceProfiles",
            Self::ExternalWorkload => "ExternalWorkloads",
            Self::LinkerdExternalWorkload => "ExternalWorkloads of linkerd",
            Self::Server => "Servers of linkerd",
        }
    }
}

/// A definition, of which no more than the name is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "RawDefinition")]
pub(crate) struct Definition {
    /// The kind that it defines; `None`: one that is not followed.
    pub(crate) kind: Option<CustomKind>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct RawDefinition {
    #[serde(default)]
    pub(crate) metadata: Metadata,
}

impl From<RawDefinition> for Definition {
    fn from(raw: RawDefinition) -> Self {
        let name = raw.metadata.name.unwrap_or_default();
        let mut kinds = CustomKind::ALL.into_iter();
        Self {
            kind: kinds.find(|kind| kind.definition() == &*name),
        }
    }
}
