//! The place of the agent.

use std::{net::IpAddr, sync::Arc};

use shunt_runtime::Here;

use crate::instances::instance::Instance;

/// Place of the agent, in the catalog's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// Its node.
    pub(crate) node: Box<str>,
    /// Its datacenter.
    pub(crate) datacenter: Box<str>,
    /// The addresses that are on its host; `None`: they are not known.
    pub(crate) here: Option<Arc<Here>>,
}

impl Place {
    /// Returns whether an instance is registered at this node.
    pub(crate) fn is_node_of(&self, instance: &Instance) -> bool {
        instance.node.eq_ignore_ascii_case(&self.node) && instance.datacenter == self.datacenter
    }

    /// Returns whether an instance that is reached at `address` runs on this host: others may be registered here, at
    /// another machine's address.
    pub(crate) fn has(&self, instance: &Instance, address: IpAddr) -> bool {
        let here = self.here.as_ref();
        self.is_node_of(instance) && here.is_none_or(|here| here.has(address))
    }
}
