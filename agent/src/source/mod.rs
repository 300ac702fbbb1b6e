//! Where events come from. A source knows the queue that takes them, and nothing else.

pub(crate) mod event_source;
pub(crate) mod file;
pub(crate) mod kubernetes;
pub(crate) mod reader;
pub(crate) mod socket;
