//! Load balancing: from a packet's destination to a backend.

pub(crate) mod affinity;
pub(crate) mod choice;
pub(crate) mod frontend;
