//! Rewriting a packet: one tuple for another, one hop less, or an error in its place, with the
//! checksums that cover them.

pub mod checksum;
pub mod icmp_error;
pub mod inner;
pub mod network;
pub mod sctp;
pub mod transport;
pub mod tuple;
