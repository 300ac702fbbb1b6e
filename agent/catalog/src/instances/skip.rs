//! Instances that are left out of a frontend's endpoints, and why.

use std::net::IpAddr;

use thiserror::Error;

/// An instance that is no endpoint.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Error)]
#[error("instance `{id}` on node `{node}`: {reason}")]
pub(crate) struct Skip {
    /// Its node.
    pub(crate) node: Box<str>,
    /// Its id there.
    pub(crate) id: Box<str>,
    /// Why.
    pub(crate) reason: SkipReason,
}

/// Reason that no client can be sent to an instance.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Error)]
pub(crate) enum SkipReason {
    /// Its address is text of another kind. Host names are among them: what they mean may change
    /// with each look at them.
    #[error("address: `{0}` is not an IP address")]
    NotAnAddress(Box<str>),
    /// Its address names no single host.
    #[error("address: {address} is {kind} address, which nobody can be reached at")]
    Address {
        /// The address.
        address: IpAddr,
        /// With its article: `a multicast`.
        kind: &'static str,
    },
    /// Its address is one of its own node alone.
    #[error("loopback: {0} leads from this node to this node")]
    Loopback(IpAddr),
    /// Its port is none.
    #[error("port: {0} is outside 1-65535")]
    Port(i64),
    /// It has no address of the frontend's family.
    #[error("family: it has {0} and no address of the frontend's family")]
    Family(IpAddr),
}
