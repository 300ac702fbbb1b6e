//! Dumps: what the node has at one instant, for whoever asks what it would do with a packet.

mod frontends;
pub(crate) mod lines;
mod network;
mod tables;
