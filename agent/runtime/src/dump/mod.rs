//! Dumps: the node's state at one instant, for a trace of a packet.

pub(crate) mod frontends;
pub(crate) mod lines;
mod network;
mod tables;
