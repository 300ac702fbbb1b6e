//! Rewriting a packet: one tuple for another, one hop less, or an error in its place, with the
//! checksums that cover them.

pub(crate) mod checksum;
pub(crate) mod congestion;
pub(crate) mod echo;
pub(crate) mod icmp_error;
pub(crate) mod inner;
pub(crate) mod mss;
pub(crate) mod network;
pub(crate) mod sctp;
pub(crate) mod transport;
pub(crate) mod tuple;
