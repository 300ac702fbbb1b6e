//! Packets without an Ethernet header.

use std::net::{IpAddr, SocketAddr};

/// Content of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A segment that opens a connection.
    Syn,
    /// A segment that acknowledges this byte, and nothing else.
    Ack {
        /// The acknowledgment number.
        number: u32,
    },
    /// A segment that ends its direction and acknowledges this byte.
    Fin {
        /// The acknowledgment number.
        number: u32,
    },
    /// A segment that resets a connection.
    Reset,
    /// A datagram.
    Udp,
}

/// A packet.
#[derive(Debug, Clone, Copy)]
pub struct Packet {
    /// The source that it claims.
    pub from: SocketAddr,
    /// Its destination.
    pub to: SocketAddr,
    /// The sequence number of a segment.
    pub sequence: u32,
    /// Its content.
    pub what: What,
}

/// The bytes of a datagram.
const PAYLOAD: &[u8; 16] = b"nobody asks this";

impl Packet {
    /// Writes the packet into `buffer`, in the place of what was there.
    pub fn write(&self, buffer: &mut Vec<u8>) {
        let Self {
            from,
            to,
            sequence,
            what,
        } = self;
        buffer.clear();
        let (protocol, length): (u8, u16) = match what {
            What::Udp => (17, 8 + PAYLOAD.len() as u16),
            _ => (6, 20),
        };
        match (from.ip(), to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                buffer.extend_from_slice(&[0x45, 0]);
                buffer.extend_from_slice(&(20 + length).to_be_bytes());
                // Identification and header checksum are the kernel's to fill in (raw(7)).
                buffer.extend_from_slice(&[0, 0, 0x40, 0, 64, protocol, 0, 0]);
                buffer.extend_from_slice(&from.octets());
                buffer.extend_from_slice(&to.octets());
            }
            (from, to) => {
                buffer.extend_from_slice(&[0x60, 0, 0, 0]);
                buffer.extend_from_slice(&length.to_be_bytes());
                buffer.extend_from_slice(&[protocol, 64]);
                for address in [from, to] {
                    let octets = match address {
                        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
                        IpAddr::V6(address) => address.octets(),
                    };
                    buffer.extend_from_slice(&octets);
                }
            }
        }
        let transport = buffer.len();
        buffer.extend_from_slice(&from.port().to_be_bytes());
        buffer.extend_from_slice(&to.port().to_be_bytes());
        let (flags, acknowledged) = match what {
            What::Udp => {
                buffer.extend_from_slice(&length.to_be_bytes());
                buffer.extend_from_slice(&[0, 0]);
                buffer.extend_from_slice(PAYLOAD);
                (None, 0)
            }
            What::Syn => (Some(0x02), 0),
            What::Ack { number } => (Some(0x10), *number),
            What::Fin { number } => (Some(0x11), *number),
            What::Reset => (Some(0x04), 0),
        };
        if let Some(flags) = flags {
            buffer.extend_from_slice(&sequence.to_be_bytes());
            buffer.extend_from_slice(&acknowledged.to_be_bytes());
            buffer.extend_from_slice(&[0x50, flags, 0xfa, 0xf0, 0, 0, 0, 0]);
        }
        let addresses = match from {
            SocketAddr::V4(_) => 12,
            SocketAddr::V6(_) => 8,
        };
        let pseudo = u32::from(protocol) + u32::from(length);
        let sum = checksum(pseudo, &buffer[addresses..]);
        let place = transport + if flags.is_some() { 16 } else { 6 };
        buffer[place..place + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

/// The Internet checksum (RFC 1071) of these bytes, an even number, and of what `sum` has already.
fn checksum(sum: u32, bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|word| match word {
        [high, low] => u32::from(u16::from_be_bytes([*high, *low])),
        _ => u32::from(word[0]) << 8,
    });
    let mut sum = words.fold(sum, u32::wrapping_add);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    match !(sum as u16) {
        // 0 would mean that a datagram has none.
        0 => 0xffff,
        sum => sum,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_have_right_checksums() {
        for (from, to) in [
            ("25.1.2.3:4000", "192.168.16.10:80"),
            ("[fd66::7]:4000", "[fd00::9]:80"),
        ] {
            for what in [
                What::Syn,
                What::Ack {
                    number: 0x1234_5678,
                },
                What::Fin { number: 7 },
                What::Reset,
                What::Udp,
            ] {
                let (from, to): (SocketAddr, SocketAddr) =
                    (from.parse().unwrap(), to.parse().unwrap());
                let mut bytes = Vec::new();
                let packet = Packet {
                    from,
                    to,
                    sequence: 0xdead_beef,
                    what,
                };
                packet.write(&mut bytes);
                let (begin, network) = if from.is_ipv4() { (12, 20) } else { (8, 40) };
                let length = (bytes.len() - network) as u32;
                let protocol = if what == What::Udp { 17 } else { 6 };
                // Over all of it with the right checksum, the sum is 0.
                let sum = checksum(protocol + length, &bytes[begin..]);
                assert_eq!(sum, 0xffff, "{what:?} {bytes:x?}");
            }
        }
    }
}
