//! Packets as they are read, where programs may have changed them.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

use shunt_common::{SCTP, TCP, UDP};

use crate::trace::frame::ETHERNET;

/// Protocols of packets in packets (RFC 2003, RFC 2473), and of ICMP.
const IN_V4: u8 = 4;
const IN_V6: u8 = 41;
const ICMP: u8 = 1;
const ICMP_V6: u8 = 58;

/// A packet as it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) protocol: u8,
    /// Source and destination, of TCP, UDP and SCTP.
    pub(crate) ports: Option<(u16, u16)>,
    /// Bytes from the network header on.
    pub(crate) length: usize,
    pub(crate) hop_limit: u8,
    /// IPv4: it may not be fragmented; IPv6: that is so of all.
    pub(crate) is_whole: bool,
    /// The packet that it carries.
    pub(crate) inner: Option<Box<Read>>,
    /// Type and code of an ICMP message.
    pub(crate) message: Option<(u8, u8)>,
}

impl Read {
    /// The packet of a frame; `None` if it is none of IP.
    pub(crate) fn of_frame(frame: &[u8], is_ethernet: bool) -> Option<Self> {
        Self::of(frame.get(if is_ethernet { ETHERNET } else { 0 }..)?)
    }

    fn of(bytes: &[u8]) -> Option<Self> {
        let (source, destination, protocol, hop_limit, is_whole, body) = match bytes.first()? >> 4 {
            4 => {
                let address = |at: usize| bytes.get(at..at + 4)?.try_into().ok();
                let (source, destination): ([u8; 4], [u8; 4]) = (address(12)?, address(16)?);
                let header = usize::from(bytes[0] & 15) * 4;
                let flags = *bytes.get(6)?;
                (
                    IpAddr::from(source),
                    IpAddr::from(destination),
                    *bytes.get(9)?,
                    *bytes.get(8)?,
                    flags & 0x40 != 0,
                    bytes.get(header..)?,
                )
            }
            6 => {
                let address = |at: usize| bytes.get(at..at + 16)?.try_into().ok();
                let (source, destination): ([u8; 16], [u8; 16]) = (address(8)?, address(24)?);
                (
                    IpAddr::from(source),
                    IpAddr::from(destination),
                    *bytes.get(6)?,
                    *bytes.get(7)?,
                    true,
                    bytes.get(40..)?,
                )
            }
            _ => return None,
        };
        let word = |at: usize| Some(u16::from_be_bytes(body.get(at..at + 2)?.try_into().ok()?));
        let has_ports = matches!(protocol, TCP | UDP | SCTP);
        let is_message = matches!(protocol, ICMP | ICMP_V6);
        let inner = match protocol {
            IN_V4 | IN_V6 => Self::of(body),
            _ if is_message => body.get(8..).and_then(Self::of),
            _ => None,
        };
        Some(Self {
            source,
            destination,
            protocol,
            ports: if has_ports {
                word(0).zip(word(2))
            } else {
                None
            },
            length: bytes.len(),
            hop_limit,
            is_whole,
            inner: inner.map(Box::new),
            message: body
                .first()
                .copied()
                .zip(body.get(1).copied())
                .filter(|_| is_message),
        })
    }

    /// Returns whether it is another packet's envelope.
    pub(crate) const fn is_envelope(&self) -> bool {
        matches!(self.protocol, IN_V4 | IN_V6)
    }

    /// The ends of a packet, or of that in its envelope.
    pub(crate) fn ends(&self) -> Option<(SocketAddr, SocketAddr)> {
        if let Some(inner) = self.inner.as_deref().filter(|_| self.is_envelope()) {
            return inner.ends();
        }
        let (from, to) = self.ports?;
        Some((
            SocketAddr::new(self.source, from),
            SocketAddr::new(self.destination, to),
        ))
    }
}

/// In words.
impl fmt::Display for Read {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (source, destination) = (self.source, self.destination);
        if let Some((kind, code)) = self.message {
            let name = match (source.is_ipv4(), kind, code) {
                (true, 3, 3) | (false, 1, 4) => "an ICMP error (port unreachable)",
                (true, 3, 4) | (false, 2, _) => "an ICMP error (too long)",
                (true, 11, _) | (false, 3, _) => "an ICMP error (come too far)",
                (true, 3, _) | (false, 1, _) => "an ICMP error (unreachable)",
                _ => "an ICMP message",
            };
            return write!(f, "{name} from {source} to {destination}");
        }
        match self.protocol {
            TCP => f.write_str("TCP")?,
            UDP => f.write_str("UDP")?,
            SCTP => f.write_str("SCTP")?,
            other => write!(f, "protocol {other}")?,
        }
        match self.ends() {
            Some((from, to)) => write!(f, " from {from} to {to}, {} bytes", self.length),
            None => write!(f, " from {source} to {destination}, {} bytes", self.length),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_off_is_no_packet() {
        for bytes in [&[][..], &[0x45], &[0x60; 20], &[0x4f; 30], &[0xf0; 60]] {
            assert_eq!(Read::of(bytes), None, "{bytes:?}");
        }
    }
}
