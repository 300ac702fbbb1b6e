//! The transport protocols that are translated.

use std::fmt;

/// A transport protocol. Ordered by name, as in every listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// SCTP, RFC 9260.
    Sctp,
    /// TCP, RFC 9293.
    Tcp,
    /// UDP, RFC 768.
    Udp,
}

impl Protocol {
    /// The name as it is written and shown: `TCP`, `UDP`, `SCTP`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sctp => "SCTP",
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
        }
    }

    /// The protocol of that [name](Self::name).
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Tcp, Self::Udp, Self::Sctp]
            .into_iter()
            .find(|protocol| protocol.name() == name)
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
