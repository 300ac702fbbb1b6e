//! The counters of the programs, per CPU: translations, drops and packets passed by, each by reason.

/// Index of a counter in the counter table; a value is the number of packets, a `u64` per CPU.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counter {
    /// A packet of a client was sent on to a backend.
    Request,
    /// A packet of a backend got its frontend's address back.
    Reply,
    /// A connection was opened: its first packet chose a backend.
    Connection,
    /// A later fragment was sent where its first one went.
    Fragment,
    /// An ICMP error about a translated packet was sent to whom it concerns.
    IcmpError,
    /// Rejected: there is no usable backend anywhere.
    RejectNoBackend,
    /// Dropped instead of rejected: as many were rejected lately as the agent allows.
    DropRejectRate,
    /// Dropped: the frontend has no usable backend.
    DropNoBackend,
    /// Dropped: the client is in none of the frontend's source ranges.
    DropSourceRange,
    /// Dropped: the conntrack table took no new entry.
    DropConntrackFull,
    /// Dropped: no source port is left for a connection to this backend.
    DropNoPort,
    /// Dropped: a connection from outside to a backend elsewhere, and this node has no address
    /// that it could go on from.
    DropNoNodeIp,
    /// This node has no route to where the packet is to go: the stack drops it, and notifies its sender.
    DropNoRoute,
    /// Rejected: the packet is longer than the link that it is to go over takes.
    RejectTooLong,
    /// Rejected: the packet has come too far (TTL, hop limit).
    RejectExpired,
    /// Dropped: the packet could not be rewritten.
    DropRewrite,
    /// Dropped: a slot or backend that the tables point at does not exist.
    DropCorrupt,
    /// Passed untouched: a later fragment, and its first one was not translated, or has not come
    /// yet.
    PassFragment,
    /// Passed untouched: more IPv6 extension headers than are walked.
    PassHeaders,
    /// Passed untouched: shorter than the lengths in its headers.
    PassTruncated,
    /// A connection was given up before its time, for a new one.
    ConntrackEarlyDrop,
    /// Dropped: no router takes on a packet from this source (loopback, broadcast, multicast,
    /// unspecified, IPv6 link-local).
    DropMartian,
    /// Dropped: the packet names its own way (IPv4 source routing).
    DropSourceRoute,
    /// A packet that the programs would have sent on themselves went through the stack, which has
    /// to fragment it, to resolve its next hop, to fill in its options or to judge where it came in.
    ThroughStack,
    /// A socket was connected to a backend of the frontend that its process asked for.
    SocketConnect,
    /// A datagram of a socket that is not connected chose a backend, which the next ones keep.
    SocketDatagram,
    /// A process got an error at once, since nothing serves it (`ECONNREFUSED`).
    SocketReject,
    /// A process got an error at once, since it is not served here (`EPERM`): traffic policy, source ranges.
    SocketDrop,
    /// A socket asked more frontends than it remembers: the one asked the longest ago was forgotten.
    SocketForgotten,
    /// A process may not have the port of a service's NodePort (`EADDRINUSE`).
    BindRefused,
    /// Rejected: the ClusterIP is a service's, but it has no such port or protocol.
    RejectUnknownPort,
    /// Dropped: the address is in a range of ClusterIPs, and no service has it.
    DropFreeAddress,
    /// Dropped: the address is a service's, which has no such port or protocol, and the way there
    /// leads back to where the packet came from.
    DropLoop,
    /// An echo request for a service's address was answered.
    EchoReply,
    /// A packet got no further than the driver: the XDP program forwarded, dropped or rejected it.
    /// It is counted as that, too.
    Xdp,
    /// A packet was handed to its backend's node in an envelope.
    Wrapped,
    /// A packet came in an envelope of another node's, and was taken out.
    Unwrapped,
    /// Packet dropped: its envelope met congestion, and its sender would heed no mark (RFC 6040).
    DropCongestion,
    /// Packet dropped: the checksum of its IPv4 header is wrong (RFC 1812 section 5.2.2).
    DropChecksum,
    /// Passed untouched: the frame is for another station, and its interface no port of a bridge.
    PassOtherStation,
    /// Packet for a frontend passed untouched: it answers a connection of this node's own, which went out
    /// from the frontend's address and port.
    PassOwn,
    /// Packet for a frontend passed untouched: a SYN-ACK or reset (SCTP: INIT ACK, ABORT) of no connection
    /// that is known.
    PassAnswer,
    /// Dropped: such a packet for a ClusterIP, or in an envelope.
    DropAnswer,
    /// Dropped: the answer of a backend that is gone to a SYN, which shows that its connection is over. The
    /// client's next SYN chooses another backend.
    DropGone,
    /// Passed untouched: an envelope that came in where none from its source can, so that its source may be forged.
    PassForgedEnvelope,
    /// Dropped: the conntrack table is short of room, and the new connection's client holds more of it than
    /// `--max-client-share` allows.
    DropClientShare,
    /// A translated packet left by another interface than the stack's rules had chosen by its backend's address: by the
    /// one of packets from the address that it left with. It is counted as what it is, too.
    Rerouted,
    /// IPv6 packet passed untouched: the program for it is not there.
    PassNoProgram,
}

impl Counter {
    /// Every counter, by index.
    pub const ALL: [Self; 48] = [
        Self::Request,
        Self::Reply,
        Self::Connection,
        Self::Fragment,
        Self::IcmpError,
        Self::RejectNoBackend,
        Self::DropRejectRate,
        Self::DropNoBackend,
        Self::DropSourceRange,
        Self::DropConntrackFull,
        Self::DropNoPort,
        Self::DropNoNodeIp,
        Self::DropNoRoute,
        Self::RejectTooLong,
        Self::RejectExpired,
        Self::DropRewrite,
        Self::DropCorrupt,
        Self::PassFragment,
        Self::PassHeaders,
        Self::PassTruncated,
        Self::ConntrackEarlyDrop,
        Self::DropMartian,
        Self::DropSourceRoute,
        Self::ThroughStack,
        Self::SocketConnect,
        Self::SocketDatagram,
        Self::SocketReject,
        Self::SocketDrop,
        Self::SocketForgotten,
        Self::BindRefused,
        Self::RejectUnknownPort,
        Self::DropFreeAddress,
        Self::DropLoop,
        Self::EchoReply,
        Self::Xdp,
        Self::Wrapped,
        Self::Unwrapped,
        Self::DropCongestion,
        Self::DropChecksum,
        Self::PassOtherStation,
        Self::PassOwn,
        Self::PassAnswer,
        Self::DropAnswer,
        Self::DropGone,
        Self::PassForgedEnvelope,
        Self::DropClientShare,
        Self::Rerouted,
        Self::PassNoProgram,
    ];

    /// The counter's name as it is shown.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Reply => "reply",
            Self::Connection => "connection",
            Self::Fragment => "fragment",
            Self::IcmpError => "icmp_error",
            Self::RejectNoBackend => "reject_no_backend",
            Self::DropRejectRate => "drop_reject_rate",
            Self::DropNoBackend => "drop_no_backend",
            Self::DropSourceRange => "drop_source_range",
            Self::DropConntrackFull => "drop_conntrack_full",
            Self::DropNoPort => "drop_no_port",
            Self::DropNoNodeIp => "drop_no_node_ip",
            Self::DropNoRoute => "drop_no_route",
            Self::RejectTooLong => "reject_too_long",
            Self::RejectExpired => "reject_expired",
            Self::DropRewrite => "drop_rewrite",
            Self::DropCorrupt => "drop_corrupt",
            Self::PassFragment => "pass_fragment",
            Self::PassHeaders => "pass_headers",
            Self::PassTruncated => "pass_truncated",
            Self::ConntrackEarlyDrop => "conntrack_early_drop",
            Self::DropMartian => "drop_martian",
            Self::DropSourceRoute => "drop_source_route",
            Self::ThroughStack => "through_stack",
            Self::SocketConnect => "socket_connect",
            Self::SocketDatagram => "socket_datagram",
            Self::SocketReject => "socket_reject",
            Self::SocketDrop => "socket_drop",
            Self::SocketForgotten => "socket_forgotten",
            Self::BindRefused => "bind_refused",
            Self::RejectUnknownPort => "reject_unknown_port",
            Self::DropFreeAddress => "drop_free_address",
            Self::DropLoop => "drop_loop",
            Self::EchoReply => "echo_reply",
            Self::Xdp => "xdp",
            Self::Wrapped => "wrapped",
            Self::Unwrapped => "unwrapped",
            Self::DropCongestion => "drop_congestion",
            Self::DropChecksum => "drop_checksum",
            Self::PassOtherStation => "pass_other_station",
            Self::PassOwn => "pass_own",
            Self::PassAnswer => "pass_answer",
            Self::DropAnswer => "drop_answer",
            Self::DropGone => "drop_gone",
            Self::PassForgedEnvelope => "pass_forged_envelope",
            Self::DropClientShare => "drop_client_share",
            Self::Rerouted => "rerouted",
            Self::PassNoProgram => "pass_no_program",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lists_each_counter_at_its_index() {
        for (index, counter) in Counter::ALL.into_iter().enumerate() {
            assert_eq!(counter as usize, index, "{}", counter.name());
        }
    }
}
