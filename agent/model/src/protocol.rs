//! The transport protocols that are translated.

use std::fmt;

use crate::named::FromName;

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

    /// The number that IANA has assigned, as packets carry it.
    pub const fn number(self) -> u8 {
        match self {
            Self::Sctp => 132,
            Self::Tcp => 6,
            Self::Udp => 17,
        }
    }

    /// The protocol of that [number](Self::number).
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            132 => Some(Self::Sctp),
            6 => Some(Self::Tcp),
            17 => Some(Self::Udp),
            _ => None,
        }
    }
}

impl FromName for Protocol {
    const EXPECTED: &'static str = "`TCP`, `UDP` or `SCTP`";

    fn from_name(name: &str) -> Option<Self> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_leads_back_to_its_protocol_and_to_no_other() {
        let known: Vec<_> = (0..=u8::MAX).filter_map(Protocol::from_number).collect();
        assert_eq!(known, [Protocol::Tcp, Protocol::Udp, Protocol::Sctp]);
        for protocol in known {
            assert_eq!(Protocol::from_number(protocol.number()), Some(protocol));
        }
    }
}
