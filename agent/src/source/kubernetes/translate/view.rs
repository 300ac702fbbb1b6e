//! What translation has to know of this node.

use std::sync::Arc;

use crate::source::kubernetes::objects::node::PrimaryAddresses;

/// This node, as far as it decides which endpoints a service has here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeView {
    /// Its name: an endpoint of this node has it.
    pub name: Arc<str>,
    /// Its zone, never empty.
    pub zone: Option<Box<str>>,
    /// Its primary addresses.
    pub addresses: PrimaryAddresses,
}
