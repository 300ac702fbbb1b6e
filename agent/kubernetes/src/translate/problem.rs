//! Parts of a Service that are not translated.

use std::net::IpAddr;

use ipnet::IpNet;
use thiserror::Error;

use crate::translate::view::Daemon;

/// A part of a Service, or of its slices, that is not translated, and why.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Error)]
pub enum Problem {
    /// A text that should be an address.
    #[error("{field}: `{text}` is not an IP address")]
    NotAnAddress {
        /// The field's name, as Kubernetes has it.
        field: &'static str,
        /// The text there.
        text: Box<str>,
    },
    /// An address that cannot be reached.
    #[error("{field}: {address} is {kind} address, which cannot be used here")]
    Unusable {
        /// The field's name, as Kubernetes has it.
        field: &'static str,
        /// The address.
        address: IpAddr,
        /// With its article: `a multicast`.
        kind: &'static str,
    },
    /// An external address that may become the ClusterIP of another Service.
    #[error(
        "{field}: {address} is in {range}, which the cluster takes ClusterIPs from: choose an address \
         outside of it"
    )]
    InServiceRange {
        /// The field's name, as Kubernetes has it.
        field: &'static str,
        /// The address.
        address: IpAddr,
        /// The range.
        range: IpNet,
    },
    /// An external address of a node, at a port that the cluster itself needs there.
    #[error(
        "{field}: {address} is left out, as {} listens there at the service's port {port}: choose another port, or \
         see --protect-host-ports",
        .daemon.name()
    )]
    HostPort {
        /// The field's name, as Kubernetes has it.
        field: &'static str,
        /// The address.
        address: IpAddr,
        /// The port of TCP.
        port: u16,
        /// The daemon that listens there.
        daemon: Daemon,
    },
    /// More frontends than a table holds.
    #[error(
        "it does not fit and is left out: its addresses and ports are {needed} frontends of one family, and the table \
         of frontends has {capacity} entries (--max-frontends)"
    )]
    TooManyFrontends {
        /// Number that it needs.
        needed: u64,
        /// Largest number there can be.
        capacity: u32,
    },
    /// Many more backends than a table holds.
    #[error(
        "it does not fit and is left out: its slices have {needed} endpoints, and the table of backends has {capacity} \
         entries (--max-backends)"
    )]
    TooManyEndpoints {
        /// Number that it needs.
        needed: u64,
        /// Largest number there can be.
        capacity: u32,
    },
    /// A range that cannot be read. Without it the allow-list would allow more, or everyone.
    #[error(
        "spec.loadBalancerSourceRanges: `{0}` is not a range of addresses: the load balancer's \
         addresses are not translated"
    )]
    NotARange(Box<str>),
    /// An annotation with none of the ways to select a backend.
    #[error(
        "metadata.annotations[service.shunt.io/selection]: `{0}` is neither `weighted` nor \
         `maglev`: the agent's default holds"
    )]
    Selection(Box<str>),
    /// An annotation with none of the ways to forward.
    #[error(
        "metadata.annotations[service.shunt.io/forwarding]: `{0}` is neither `snat` nor `dsr`: the \
         agent's default holds"
    )]
    Forwarding(Box<str>),
    /// An annotation that is neither `true` nor `false`.
    #[error(
        "metadata.annotations[service.shunt.io/masquerade]: `{0}` is neither `true` nor `false`: the \
         agent's default holds"
    )]
    Masquerade(Box<str>),
    /// A port of which the protocol is not known.
    #[error("port `{0}`: the protocol is none of TCP, UDP and SCTP")]
    Protocol(Box<str>),
    /// A port with the number 0.
    #[error("port `{0}`: the port is 0")]
    ZeroPort(Box<str>),
    /// A port that is another one's equal in number and protocol.
    #[error("port `{0}`: another port of the service has its number and protocol")]
    DuplicatePort(Box<str>),
    /// A node port that is another one's equal in number and protocol.
    #[error("port `{0}`: another port of the service has its node port and protocol")]
    DuplicateNodePort(Box<str>),
    /// A port of an EndpointSlice that cannot be read.
    #[error("EndpointSlice `{slice}`: ports{reason}: it is left out")]
    SlicePort {
        /// Name of the slice.
        slice: Box<str>,
        /// Its index, and what is wrong with it.
        reason: Box<str>,
    },
    /// A backend of a TrafficSplit that cannot be read.
    #[error(
        "TrafficSplit `{split}`: spec.backends{reason}: it gets nothing, and its share goes to the others"
    )]
    TrafficSplitBackend {
        /// Name of the split.
        split: Box<str>,
        /// Its index, and what is wrong with it.
        reason: Box<str>,
    },
    /// A TrafficSplit whose weights are too large to be added up.
    #[error(
        "TrafficSplit `{0}`: its weights are more than 4294967295 together, so it splits nothing: \
         make them smaller, in the same proportions"
    )]
    TrafficSplitWeights(Box<str>),
    /// A ServiceProfile whose weights are too large to be added up.
    #[error(
        "ServiceProfile `{0}`: its weights are more than 4294967.295 together, so it splits nothing: \
         make them smaller, in the same proportions"
    )]
    ServiceProfileWeights(Box<str>),
    /// A place that a ServiceProfile sends traffic to.
    #[error(
        "ServiceProfile `{profile}`: spec.dstOverrides: `{authority}` is not \
         `service.namespace.svc.domain:port` with a weight: it gets nothing, and its share goes to \
         the others"
    )]
    ServiceProfileOverride {
        /// Name of the profile.
        profile: Box<str>,
        /// The text there.
        authority: Box<str>,
    },
}

impl Problem {
    /// The field of an endpoint's address.
    pub(crate) const ENDPOINT: &'static str = "endpoints[].addresses[0]";

    /// Returns whether it is one of an endpoint, and not of the Service.
    pub(crate) fn is_of_endpoint(&self) -> bool {
        match self {
            Self::NotAnAddress { field, .. } | Self::Unusable { field, .. } => {
                *field == Self::ENDPOINT
            }
            Self::SlicePort { .. } => true,
            Self::InServiceRange { .. }
            | Self::HostPort { .. }
            | Self::TooManyFrontends { .. }
            | Self::TooManyEndpoints { .. }
            | Self::NotARange(_)
            | Self::Selection(_)
            | Self::Forwarding(_)
            | Self::Masquerade(_)
            | Self::Protocol(_)
            | Self::ZeroPort(_)
            | Self::DuplicatePort(_)
            | Self::DuplicateNodePort(_)
            | Self::TrafficSplitBackend { .. }
            | Self::TrafficSplitWeights(_)
            | Self::ServiceProfileWeights(_)
            | Self::ServiceProfileOverride { .. } => false,
        }
    }
}
