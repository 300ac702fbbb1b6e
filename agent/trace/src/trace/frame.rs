//! Packets as bytes: made of what is asked about, and read again where programs have changed them.

use std::net::{IpAddr, SocketAddr};

use shunt_common::{SCTP, TCP, UDP};

use crate::{
    dump::content::{Interface, LinkAddress},
    trace::{error::TraceError, question::Transport},
};

const ETHERNET: usize = 14;
const HOP_LIMIT: u8 = 64;

/// Protocols of packets in packets (RFC 2003, RFC 2473), and of ICMP.
const IN_V4: u8 = 4;
const IN_V6: u8 = 41;
const ICMP: u8 = 1;
const ICMP_V6: u8 = 58;

/// A packet to be made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Made {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) transport: Transport,
    pub(crate) length: Option<u16>,
}

/// How long headers are, from the network header on.
const fn least(to: &SocketAddr, transport: Transport) -> u16 {
    let network = if to.is_ipv4() { 20 } else { 40 };
    network
        + match transport {
            Transport::Tcp(_) => 20,
            Transport::Udp => 8,
            Transport::Sctp => 32,
        }
}

impl Made {
    /// The packet as it comes in by an interface, from a neighbour with this link address.
    ///
    /// # Errors
    ///
    /// If it cannot be so long.
    pub(crate) fn frame(
        &self,
        interface: &Interface,
        neighbour: Option<LinkAddress>,
    ) -> Result<Vec<u8>, TraceError> {
        let Self {
            from,
            to,
            transport,
            length,
        } = *self;
        let least = least(&to, transport);
        let length = length.unwrap_or(least);
        if length < least {
            return Err(TraceError::Length {
                given: length,
                least,
            });
        }
        let mut frame = Vec::new();
        if interface.is_ethernet {
            let own = interface.link_address.unwrap_or(LinkAddress([0; 6]));
            frame.extend(own.0);
            frame.extend(neighbour.unwrap_or(LinkAddress([2, 0, 0, 0, 0, 1])).0);
            let ethertype: u16 = if to.is_ipv4() { 0x0800 } else { 0x86dd };
            frame.extend(ethertype.to_be_bytes());
        }
        let network = frame.len();
        match (from.ip(), to.ip()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                frame.extend([0x45, 0]);
                frame.extend(length.to_be_bytes());
                // No identification, not to be fragmented.
                frame.extend([0, 0, 0x40, 0, HOP_LIMIT, transport.number(), 0, 0]);
                frame.extend(source.octets());
                frame.extend(destination.octets());
                let sum = checksum(&[&frame[network..]]);
                frame[network + 10..network + 12].copy_from_slice(&sum.to_be_bytes());
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                frame.extend([0x60, 0, 0, 0]);
                frame.extend((length - 40).to_be_bytes());
                frame.extend([transport.number(), HOP_LIMIT]);
                frame.extend(source.octets());
                frame.extend(destination.octets());
            }
            (from, to) => return Err(TraceError::Families(from, to)),
        }
        let begin = frame.len();
        frame.extend(from.port().to_be_bytes());
        frame.extend(to.port().to_be_bytes());
        let end = network + usize::from(length);
        match transport {
            Transport::Tcp(flags) => {
                frame.extend([0, 0, 0, 1, 0, 0, 0, u8::from(flags.0 & 16 != 0)]);
                frame.extend([0x50, flags.0, 0xff, 0xff, 0, 0, 0, 0]);
            }
            Transport::Udp => {
                frame.extend(((end - begin) as u16).to_be_bytes());
                frame.extend([0, 0]);
            }
            Transport::Sctp => {
                // An INIT chunk (RFC 9260 section 3.3.2).
                frame.extend([0; 8]);
                frame.extend([1, 0, 0, 20, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1]);
            }
        }
        frame.resize(end, 0);
        let place = begin
            + match transport {
                Transport::Tcp(_) => 16,
                Transport::Udp => 6,
                Transport::Sctp => {
                    let sum = crc32c(&frame[begin..]);
                    frame[begin + 8..begin + 12].copy_from_slice(&sum.to_le_bytes());
                    return Ok(frame);
                }
            };
        let rest = ((end - begin) as u32).to_be_bytes();
        let sum = checksum(&[
            &octets(from.ip()),
            &octets(to.ip()),
            &rest,
            &[0, 0, 0, transport.number()],
            &frame[begin..],
        ]);
        // 0 is no checksum with UDP.
        let sum = if sum == 0 { !0 } else { sum };
        frame[place..place + 2].copy_from_slice(&sum.to_be_bytes());
        Ok(frame)
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// RFC 1071, over bytes of which all but the last have an even number.
fn checksum(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    let sum: u64 = words
        .map(|word| u64::from(word[0]) << 8 | u64::from(*word.get(1).unwrap_or(&0)))
        .sum();
    let mut sum = sum;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// RFC 9260 appendix A.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32| crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
    let crc = bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc))
    });
    !crc
}

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

    /// Whether it is another packet's envelope.
    pub(crate) const fn is_envelope(&self) -> bool {
        matches!(self.protocol, IN_V4 | IN_V6)
    }
}

/// As a router leaves a packet that goes on: one hop less to go.
pub(crate) fn take_hop(frame: &mut [u8], is_ethernet: bool) {
    let network = if is_ethernet { ETHERNET } else { 0 };
    let Some(header) = frame.get_mut(network..) else {
        return;
    };
    match header.first().map(|first| first >> 4) {
        Some(4) if header.len() >= 20 => {
            header[8] = header[8].saturating_sub(1);
            header[10..12].fill(0);
            let length = (usize::from(header[0] & 15) * 4).min(header.len());
            let sum = checksum(&[&header[..length]]);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        Some(6) if header.len() >= 40 => header[7] = header[7].saturating_sub(1),
        _ => {}
    }
}

/// The packet with the link's header of another interface.
pub(crate) fn relink(frame: &[u8], was_ethernet: bool, to: &Interface) -> Vec<u8> {
    let packet = frame.get(if was_ethernet { ETHERNET } else { 0 }..);
    let packet = packet.unwrap_or_default();
    let mut new = Vec::new();
    if to.is_ethernet {
        new.extend([0; 6]);
        new.extend(to.link_address.unwrap_or(LinkAddress([0; 6])).0);
        let is_v6 = packet.first().is_some_and(|first| first >> 4 == 6);
        new.extend(if is_v6 { [0x86, 0xdd] } else { [8, 0] });
    }
    new.extend_from_slice(packet);
    new
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::question::Flags;

    fn interface(is_ethernet: bool) -> Interface {
        Interface {
            index: 1,
            name: "eth0".to_owned(),
            mtu: 1500,
            is_ethernet,
            is_up: true,
            link_address: None,
            addresses: Vec::new(),
            forwards_v4: true,
            forwards_v6: true,
        }
    }

    #[test]
    fn a_packet_that_is_made_is_read_as_it_was_asked_for() {
        for (from, to) in [
            ("10.0.0.1:1", "10.0.0.2:80"),
            ("[fd00::1]:1", "[fd00::2]:80"),
        ] {
            for transport in [Transport::Tcp(Flags::SYN), Transport::Udp, Transport::Sctp] {
                for is_ethernet in [true, false] {
                    let made = Made {
                        from: from.parse().unwrap(),
                        to: to.parse().unwrap(),
                        transport,
                        length: Some(333),
                    };
                    let frame = made.frame(&interface(is_ethernet), None).unwrap();
                    let read = Read::of_frame(&frame, is_ethernet).unwrap();
                    assert_eq!(read.source, made.from.ip());
                    assert_eq!(read.destination, made.to.ip());
                    assert_eq!(read.ports, Some((1, 80)));
                    assert_eq!(read.length, 333);
                    assert_eq!(read.protocol, transport.number());
                }
            }
        }
    }

    #[test]
    fn a_hop_less_keeps_the_header_right() {
        let made = Made {
            from: "10.0.0.1:1".parse().unwrap(),
            to: "10.0.0.2:80".parse().unwrap(),
            transport: Transport::Udp,
            length: None,
        };
        let mut frame = made.frame(&interface(false), None).unwrap();
        take_hop(&mut frame, false);
        assert_eq!(frame[8], 63);
        assert_eq!(checksum(&[&frame[..20]]), 0);
    }

    #[test]
    fn crc32c_is_that_of_rfc_3720() {
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
    }

    #[test]
    fn what_is_cut_off_is_no_packet() {
        for bytes in [&[][..], &[0x45], &[0x60; 20], &[0x4f; 30], &[0xf0; 60]] {
            assert_eq!(Read::of(bytes), None, "{bytes:?}");
        }
    }
}
