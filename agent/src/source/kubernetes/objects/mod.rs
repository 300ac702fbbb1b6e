//! The cluster's objects, reduced to what is read of them.
//!
//! An object is decoded from the API server's JSON as it stands, and everything that nobody reads is
//! skipped on the way: a node holds the endpoints of the whole cluster in memory.

pub(super) mod address;
pub(super) mod endpoint_slice;
pub(super) mod interner;
pub(super) mod metadata;
mod names;
pub(super) mod node;
pub(super) mod null;
pub(super) mod service;
pub(super) mod service_cidr;
