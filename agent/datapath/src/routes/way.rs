//! A way.

use std::net::IpAddr;

/// The way to all addresses of a prefix, as packets of this host's own go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Way {
    /// The source address that the kernel prefers.
    pub(crate) source: Option<IpAddr>,
    /// The MTU that the route has.
    pub(crate) mtu: Option<u32>,
}
