//! Sources of events. A source knows the queue that takes them, and nothing else.

pub(crate) mod consul;
pub(crate) mod event_source;
pub(crate) mod file;
pub(crate) mod instances;
pub(crate) mod kubernetes;
pub(crate) mod local;
pub(crate) mod reader;
pub(crate) mod socket;
