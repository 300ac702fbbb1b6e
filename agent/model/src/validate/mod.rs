//! From the unchecked form to values: everything that shape alone does not rule out.

pub(crate) mod address;
pub(crate) mod backends;
pub(crate) mod event;
pub(crate) mod name;
pub(crate) mod nodes;
pub(crate) mod service;
pub(crate) mod snapshot;
pub(crate) mod split;
pub(crate) mod workload;
