//! Where the agent is.

use crate::source::instances::instance::Instance;

/// Where the agent is, in the catalog's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// Its node.
    pub(crate) node: Box<str>,
    /// Its datacenter.
    pub(crate) datacenter: Box<str>,
}

impl Place {
    /// Whether an instance runs on this node.
    pub(crate) fn is_node_of(&self, instance: &Instance) -> bool {
        instance.node.eq_ignore_ascii_case(&self.node) && instance.datacenter == self.datacenter
    }
}
