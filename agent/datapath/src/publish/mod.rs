//! From frontends to tables, in an order in which no packet sees half a change.

pub(crate) mod allocator;
pub(crate) mod dual_publisher;
pub(crate) mod group;
pub(crate) mod maglev;
pub(crate) mod owners;
pub(crate) mod publisher;
pub(crate) mod read_back;
pub(crate) mod services;
