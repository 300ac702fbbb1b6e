//! A question about a packet.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

use shunt_common::{SCTP, TCP, UDP};

/// A packet that is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// From whom it is.
    pub from: IpAddr,
    /// From which port, in host byte order.
    pub from_port: u16,
    /// To where.
    pub to: SocketAddr,
    /// Transport that the packet carries.
    pub transport: Transport,
    /// By which interface it comes in; `None`: the one that the route back to its sender leads to, or none if
    /// its sender is a process of the node.
    pub interface: Option<String>,
    /// It is not a packet that is asked about but a system call of a process in a network namespace of its own,
    /// a pod's.
    pub by_socket: bool,
    /// Length of the packet, from its IP header on; `None`: as short as it can be.
    pub length: Option<u16>,
    /// Number of packets, of differing source ports, the first of which has [`Self::from_port`].
    pub count: u32,
}

/// Transport of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// A segment with these flags.
    Tcp(Flags),
    /// A datagram.
    Udp,
    /// An INIT.
    Sctp,
}

impl Transport {
    /// Its IANA number.
    pub const fn number(self) -> u8 {
        match self {
            Self::Tcp(_) => TCP,
            Self::Udp => UDP,
            Self::Sctp => SCTP,
        }
    }
}

/// The flags of a segment (RFC 9293 section 3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// Flag that begins a connection.
    pub const SYN: Self = Self(2);

    const NAMES: [(&str, u8); 6] = [
        ("fin", 1),
        ("syn", 2),
        ("rst", 4),
        ("psh", 8),
        ("ack", 16),
        ("urg", 32),
    ];
}

impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = Self::NAMES.iter().filter(|(_, bit)| self.0 & bit != 0);
        let names: Vec<String> = set.map(|(name, _)| name.to_ascii_uppercase()).collect();
        f.write_str(&names.join("+"))
    }
}

impl FromStr for Flags {
    type Err = String;

    /// Names with `,`, `+` or `|` between them.
    fn from_str(text: &str) -> Result<Self, String> {
        let names = text.split([',', '+', '|']);
        let flags = names.map(|name| {
            let name = name.trim().to_ascii_lowercase();
            let known = Self::NAMES.iter().find(|(known, _)| *known == name);
            let (_, bit) = known.ok_or_else(|| {
                format!("{name:?} is no flag: fin, syn, rst, psh, ack and urg are")
            })?;
            Ok(*bit)
        });
        let bits = flags.collect::<Result<Vec<u8>, String>>()?;
        Ok(Self(bits.into_iter().fold(0, |all, bit| all | bit)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_named() {
        for (text, bits) in [
            ("syn", 2),
            ("SYN,ACK", 18),
            ("fin+ack", 17),
            ("rst|ack", 20),
        ] {
            assert_eq!(text.parse(), Ok(Flags(bits)), "{text}");
        }
        for text in ["", "sin", "syn,,ack"] {
            text.parse::<Flags>().unwrap_err();
        }
    }
}
