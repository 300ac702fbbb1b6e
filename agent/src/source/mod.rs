//! Sources of events that watch a cluster or a catalog. A source knows the queue that takes them, and nothing else.

pub(crate) mod consul;
pub(crate) mod instances;
pub(crate) mod local;
