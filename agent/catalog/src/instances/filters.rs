//! Filters of the instances that a frontend is for, as in Consul's prepared queries.

use crate::instances::{
    frontend::Frontend,
    instance::{CONNECT_PROXY, Instance, Meta},
};

impl Frontend {
    /// Returns whether an instance of its service is one of those that it is for. Health has no part in it.
    pub(crate) fn is_for(&self, instance: &Instance) -> bool {
        self.has_kind(instance)
            && has_all(&instance.node_meta, &self.node_meta)
            && has_all(&instance.meta, &self.service_meta)
            && self.tags.iter().all(|rule| rule.holds(&instance.tags))
    }

    /// A plain frontend leads to services alone; one of Connect to what speaks its protocol for them.
    fn has_kind(&self, instance: &Instance) -> bool {
        if self.connect {
            &*instance.kind == CONNECT_PROXY
                || (instance.kind.is_empty() && instance.is_connect_native)
        } else {
            instance.kind.is_empty()
        }
    }
}

/// Returns whether all of `wanted` is there, letter for letter. What is missing is not the same as what is empty.
fn has_all(meta: &Meta, wanted: &Meta) -> bool {
    wanted
        .iter()
        .all(|(key, value)| meta.get(key) == Some(value))
}
