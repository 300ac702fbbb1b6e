//! What a server does wrong.

use std::time::Duration;

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
}

impl Kind {
    pub(super) const ALL: [Self; 4] = [
        Self::Service,
        Self::EndpointSlice,
        Self::Node,
        Self::ServiceCidr,
    ];

    /// Where the API has it.
    pub(super) const fn path(self) -> &'static str {
        match self {
            Self::Service => "/api/v1/services",
            Self::EndpointSlice => "/apis/discovery.k8s.io/v1/endpointslices",
            Self::Node => "/api/v1/nodes",
            Self::ServiceCidr => "/apis/networking.k8s.io/v1/servicecidrs",
        }
    }

    /// Its name in objects.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Service => "Service",
            Self::EndpointSlice => "EndpointSlice",
            Self::Node => "Node",
            Self::ServiceCidr => "ServiceCIDR",
        }
    }
}

/// What a server does wrong, until it is told otherwise.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    /// Answers every request with this status.
    pub status: Option<u16>,
    /// With how many seconds for clients to stay away, in a status 429.
    pub retry_after: u32,
    /// Lets requests for lists of this kind wait until it is told otherwise.
    pub withheld: Option<Kind>,
    /// Sends no more than half of a list, and then cuts the connection.
    pub half_lists: bool,
    /// Sends half of a watch's next event, and then cuts the connection.
    pub half_events: bool,
    /// Says nothing of how far a watch is while nothing changes.
    pub no_bookmarks: bool,
    /// Forgets after the first page how a list goes on.
    pub forgets_pages: bool,
    /// Sends every answer in small pieces, with a pause of this length after each.
    pub pause: Option<Duration>,
    /// Has no objects of this kind, as clusters of an older version.
    pub lacks: Option<Kind>,
    /// Answers whoever makes an Event with this status.
    pub events: Option<u16>,
    /// Gives no more than so many objects in a page.
    pub page: Option<usize>,
}
