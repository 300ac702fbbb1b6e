//! Transport protocols by their IANA number, as they stand in the IP header.

/// Transmission Control Protocol, RFC 9293.
pub const TCP: u8 = 6;
/// User Datagram Protocol, RFC 768.
pub const UDP: u8 = 17;
/// Stream Control Transmission Protocol, RFC 9260.
pub const SCTP: u8 = 132;
