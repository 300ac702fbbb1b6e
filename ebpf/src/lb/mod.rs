//! Load balancing: from a packet's destination to a backend.

pub mod affinity;
pub mod choice;
pub mod frontend;
