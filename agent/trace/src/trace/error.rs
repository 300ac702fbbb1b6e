//! Reasons that a packet cannot be traced.

use std::{io, net::IpAddr};

use shunt_programs::SetError;

/// Reason that a packet cannot be traced.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The tables are another version's.
    #[error(
        "the dump was taken from shunt {version}, whose tables this one does not know: {source}"
    )]
    Tables {
        /// Of the agent that the dump is of.
        version: String,
        /// The difference.
        source: SetError,
    },
    /// There is no such interface.
    #[error("the node has no interface {0}")]
    NoInterface(String),
    /// One address is of IPv4, one of IPv6.
    #[error("a packet from {0} cannot go to {1}: they are of different families")]
    Families(IpAddr, IpAddr),
    /// No route leads back to the sender.
    #[error(
        "no route leads to {0}, so it is not known where its packets come in: say so by an interface"
    )]
    NoWayBack(IpAddr),
    /// A packet cannot be as long or as short.
    #[error("a packet of {given} bytes cannot be: it has {least} at least, and 65535 at most")]
    Length {
        /// Length that was asked for.
        given: u16,
        /// Length of its headers.
        least: u16,
    },
    /// A process asks by TCP or UDP alone.
    #[error("sockets of protocol {0} are not translated: only those of TCP and UDP are")]
    Socket(u8),
    /// There is no memory for the packet.
    #[error("there is no memory for the packet: {0}")]
    Memory(#[from] io::Error),
}
