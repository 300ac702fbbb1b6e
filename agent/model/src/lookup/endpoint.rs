//! An endpoint as a lookup shows it.

use std::{net::IpAddr, sync::Arc};

use crate::{
    endpoint::{Endpoint, EndpointState, Scopes},
    protocol::Protocol,
    service_id::ServiceId,
    workload::Workload,
};

/// The identity of an endpoint of an answer.
///
/// Where port and protocol were asked for, address and port of the endpoint alone distinguish it. Otherwise the same
/// endpoint may be behind several ports, and is there once for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointKey {
    /// The port of the subject that it is behind: the frontend's, in host byte order.
    pub frontend_port: u16,
    /// The transport protocol, of frontend and endpoint.
    pub protocol: Protocol,
    /// The endpoint's address.
    pub ip: IpAddr,
    /// The endpoint's port in host byte order, never 0.
    pub port: u16,
}

/// One endpoint behind what was asked about, usable or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointView {
    /// Its identity.
    pub key: EndpointKey,
    /// The service whose endpoint it is: the one that was asked about, or one that it splits its
    /// connections to.
    pub service: Arc<ServiceId>,
    /// True if the port that was asked about has it itself, and not only what its split names.
    pub is_own: bool,
    /// It takes new connections.
    pub ready: bool,
    /// It answers, ready or not.
    pub serving: bool,
    /// It is on its way out. False for one that is ready all the same.
    pub terminating: bool,
    /// True if it runs on this node.
    pub local: bool,
    /// The node that it runs on.
    pub node: Option<Arc<str>>,
    /// The zone that it runs in.
    pub zone: Option<Arc<str>>,
    /// Its weight among the endpoints of its service, as in the events.
    pub weight: u32,
    /// The sets that it belongs to, as in the events.
    pub scopes: Scopes,
    /// Its use by the datapath.
    pub used: Use,
    /// The same for clients on this node, or in mode dsr for packets that another node has handed over.
    pub used_here: Use,
    /// The workload at its address, if that is known.
    pub workload: Option<Arc<Workload>>,
}

/// The datapath's use of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Use {
    /// It is selected for new connections.
    New,
    /// It keeps the connections that it has, and gets no new one.
    Open,
    /// The datapath does not know it.
    None,
}

impl Use {
    /// The name as it is shown: `new`, `open`, `none`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Open => "open",
            Self::None => "none",
        }
    }
}

/// Returns the conditions of an endpoint, as [`EndpointView`] shows them: ready, serving, terminating.
pub(super) const fn conditions(endpoint: &Endpoint) -> (bool, bool, bool) {
    match endpoint.state {
        EndpointState::Ready => (true, true, false),
        EndpointState::Terminating => (false, endpoint.serving, true),
        EndpointState::NotReady => (false, endpoint.serving, false),
    }
}
