//! What the renderer is told once, at its start.

use std::{collections::BTreeSet, net::IpAddr, num::NonZeroU32};

/// The renderer's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderOptions {
    /// This node's own addresses. Empty: those node addresses of the events that are among
    /// `host_addresses`.
    pub node_ips: BTreeSet<IpAddr>,
    /// The addresses of this host's interfaces, as they are at the start.
    pub host_addresses: BTreeSet<IpAddr>,
    /// Multiplies the weight of local backends.
    pub local_backend_weight: NonZeroU32,
}

impl Default for RenderOptions {
    fn default() -> Self {
        Self {
            node_ips: BTreeSet::new(),
            host_addresses: BTreeSet::new(),
            local_backend_weight: NonZeroU32::MIN,
        }
    }
}
