//! From whom a packet is and to where, as people write it.

use std::{
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

use crate::trace::question::{Flags, Transport};

/// From whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sender {
    /// The sender's address.
    pub address: IpAddr,
    /// The source port of the first packet, in host byte order.
    pub port: u16,
}

impl Sender {
    /// The source port of packets for which none is asked.
    pub const PORT: u16 = 40_000;
}

impl FromStr for Sender {
    type Err = String;

    /// `10.1.1.5`, `10.1.1.5:40000`, `fd00::5`, `[fd00::5]:40000`.
    fn from_str(text: &str) -> Result<Self, String> {
        let bare = text
            .strip_prefix('[')
            .and_then(|text| text.strip_suffix(']'));
        if let Ok(address) = bare.unwrap_or(text).parse() {
            return Ok(Self {
                address,
                port: Self::PORT,
            });
        }
        let socket: SocketAddr = text.parse().map_err(
            |_| "an address belongs there, or one with a port: 10.1.1.5:40000, [fd00::5]:40000",
        )?;
        Ok(Self {
            address: socket.ip(),
            port: socket.port(),
        })
    }
}

/// To where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Destination {
    /// The address and port.
    pub address: SocketAddr,
    protocol: Protocol,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Tcp,
    Udp,
    Sctp,
}

impl Destination {
    /// Returns the transport that is carried there; a segment has these flags.
    pub const fn transport(self, flags: Flags) -> Transport {
        match self.protocol {
            Protocol::Tcp => Transport::Tcp(flags),
            Protocol::Udp => Transport::Udp,
            Protocol::Sctp => Transport::Sctp,
        }
    }
}

impl FromStr for Destination {
    type Err = String;

    /// `10.96.0.1:80`, `10.96.0.1:53/udp`, `[fd00::1]:80`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (address, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
        Ok(Self {
            address: address.parse().map_err(
                |_| "an address with a port belongs there: 10.96.0.1:80, [fd00::1]:53/udp",
            )?,
            protocol: match protocol.to_ascii_lowercase().as_str() {
                "tcp" => Protocol::Tcp,
                "udp" => Protocol::Udp,
                "sctp" => Protocol::Sctp,
                other => return Err(format!("{other:?} is no protocol: tcp, udp and sctp are")),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_and_destinations_are_written_as_usual() {
        for (text, address, port) in [
            ("10.1.1.5", "10.1.1.5", Sender::PORT),
            ("10.1.1.5:7", "10.1.1.5", 7),
            ("fd00::5", "fd00::5", Sender::PORT),
            ("[fd00::5]", "fd00::5", Sender::PORT),
            ("[fd00::5]:7", "fd00::5", 7),
        ] {
            let from: Sender = text.parse().unwrap();
            assert_eq!((from.address, from.port), (address.parse().unwrap(), port));
        }
        "10.1.1".parse::<Sender>().unwrap_err();
        let to: Destination = "[fd00::1]:53/UDP".parse().unwrap();
        assert_eq!(to.transport(Flags::SYN), Transport::Udp);
        for text in ["10.96.0.1", "10.96.0.1:80/icmp", "10.96.0.1:x"] {
            text.parse::<Destination>().unwrap_err();
        }
    }
}
