//! Kinds of objects, and where the API has them.

/// A kind of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Services.
    Service,
    /// EndpointSlices.
    EndpointSlice,
    /// Nodes.
    Node,
    /// ServiceCIDRs.
    ServiceCidr,
    /// Pods.
    Pod,
    /// CustomResourceDefinitions.
    Definition,
    /// TCPRoutes, if they are defined.
    TcpRoute,
    /// UDPRoutes, if they are defined.
    UdpRoute,
    /// ReferenceGrants, if they are defined.
    ReferenceGrant,
    /// TrafficSplits, if they are defined.
    TrafficSplit,
    /// ServiceProfiles, if they are defined.
    ServiceProfile,
    /// ExternalWorkloads of our group, if they are defined.
    ExternalWorkload,
    /// ExternalWorkloads of linkerd's group, if they are defined.
    LinkerdExternalWorkload,
    /// Servers of linkerd's policies, if they are defined.
    Server,
}

impl Kind {
    pub(super) const ALL: [Self; 14] = [
        Self::Service,
        Self::EndpointSlice,
        Self::Node,
        Self::ServiceCidr,
        Self::Pod,
        Self::Definition,
        Self::TcpRoute,
        Self::UdpRoute,
        Self::ReferenceGrant,
        Self::TrafficSplit,
        Self::ServiceProfile,
        Self::ExternalWorkload,
        Self::LinkerdExternalWorkload,
        Self::Server,
    ];

    /// Its group, and its name in paths.
    const fn place(self) -> (&'static str, &'static str) {
        match self {
            Self::Service => ("", "services"),
            Self::EndpointSlice => ("discovery.k8s.io", "endpointslices"),
            Self::Node => ("", "nodes"),
            Self::ServiceCidr => ("networking.k8s.io", "servicecidrs"),
            Self::Pod => ("", "pods"),
            Self::Definition => ("apiextensions.k8s.io", "customresourcedefinitions"),
            Self::TcpRoute => ("gateway.networking.k8s.io", "tcproutes"),
            Self::UdpRoute => ("gateway.networking.k8s.io", "udproutes"),
            Self::ReferenceGrant => ("gateway.networking.k8s.io", "referencegrants"),
            Self::TrafficSplit => ("split.smi-spec.io", "trafficsplits"),
            Self::ServiceProfile => ("linkerd.io", "serviceprofiles"),
            Self::ExternalWorkload => ("workload.shunt.io", "externalworkloads"),
            Self::LinkerdExternalWorkload => ("workload.linkerd.io", "externalworkloads"),
            Self::Server => ("policy.linkerd.io", "servers"),
        }
    }

    /// The kind of this place.
    pub(super) fn at(group: &str, plural: &str) -> Option<Self> {
        let mut kinds = Self::ALL.into_iter();
        kinds.find(|kind| kind.place() == (group, plural))
    }

    /// The kind of an object that names its kind and the version of its API: two groups may have kinds of
    /// one name.
    pub(super) fn of(kind: &str, api_version: &str) -> Option<Self> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let mut kinds = Self::ALL.into_iter();
        kinds.find(|own| {
            let is_shared = matches!(own, Self::ExternalWorkload | Self::LinkerdExternalWorkload);
            own.name() == kind && (!is_shared || own.place().0 == group)
        })
    }

    /// The name of its definition, if it is there only where it is defined.
    pub(super) fn definition(self) -> Option<String> {
        let (group, plural) = self.place();
        match self {
            Self::TcpRoute
            | Self::UdpRoute
            | Self::ReferenceGrant
            | Self::TrafficSplit
            | Self::ServiceProfile
            | Self::ExternalWorkload
            | Self::LinkerdExternalWorkload
            | Self::Server => Some(format!("{plural}.{group}")),
            Self::Service
            | Self::EndpointSlice
            | Self::Node
            | Self::ServiceCidr
            | Self::Pod
            | Self::Definition => None,
        }
    }

    /// Returns whether its status is written by itself, and changes of the rest are counted.
    pub(super) const fn has_status(self) -> bool {
        matches!(
            self,
            Self::TcpRoute
                | Self::UdpRoute
                | Self::ExternalWorkload
                | Self::LinkerdExternalWorkload
        )
    }

    /// Its name in objects.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Service => "Service",
            Self::EndpointSlice => "EndpointSlice",
            Self::Node => "Node",
            Self::ServiceCidr => "ServiceCIDR",
            Self::Pod => "Pod",
            Self::Definition => "CustomResourceDefinition",
            Self::TcpRoute => "TCPRoute",
            Self::UdpRoute => "UDPRoute",
            Self::ReferenceGrant => "ReferenceGrant",
            Self::TrafficSplit => "TrafficSplit",
            Self::ServiceProfile => "ServiceProfile",
            Self::ExternalWorkload | Self::LinkerdExternalWorkload => "ExternalWorkload",
            Self::Server => "Server",
        }
    }
}
