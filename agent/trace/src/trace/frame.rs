//! Packets as bytes: made of what is asked about, and changed as they go on.

use std::net::{IpAddr, SocketAddr};

use etherparse::{
    EtherType, Ethernet2Header, IpHeaders, IpNumber, Ipv4Extensions, Ipv4Header, Ipv6Extensions,
    Ipv6Header, PacketBuilder, TcpHeader,
};

use crate::{
    dump::content::{Interface, LinkAddress},
    trace::{
        error::TraceError,
        question::{Flags, Transport},
    },
};

/// Length of the link's header.
pub(super) const ETHERNET: usize = Ethernet2Header::LEN;
const HOP_LIMIT: u8 = 64;

/// A packet to be made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Made {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) transport: Transport,
    pub(crate) length: Option<u16>,
}

/// Returns the length of headers, from the network header on.
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
        let wrong = || TraceError::Length {
            given: length,
            least,
        };
        let rest = vec![0; length.checked_sub(least).ok_or_else(wrong)?.into()];
        let step = PacketBuilder::ip(network(from.ip(), to.ip())?);
        let mut frame = Vec::new();
        if interface.is_ethernet {
            let header = Ethernet2Header {
                source: neighbour.unwrap_or(LinkAddress([2, 0, 0, 0, 0, 1])).0,
                destination: interface.link_address.unwrap_or(LinkAddress([0; 6])).0,
                ether_type: ether_type(to.is_ipv6()),
            };
            frame.extend(header.to_bytes());
        }
        match transport {
            Transport::Tcp(flags) => {
                let header = segment(from.port(), to.port(), flags);
                step.tcp_header(header).write(&mut frame, &rest)
            }
            Transport::Udp => step.udp(from.port(), to.port()).write(&mut frame, &rest),
            Transport::Sctp => {
                let packet = init(from.port(), to.port(), &rest);
                step.write(&mut frame, IpNumber::SCTP, &packet)
            }
        }
        .map_err(|_| wrong())?;
        Ok(frame)
    }
}

const fn ether_type(is_v6: bool) -> EtherType {
    if is_v6 {
        EtherType::IPV6
    } else {
        EtherType::IPV4
    }
}

/// The network's header, of a packet that is not to be fragmented. The owner of the rest fills in its protocol and
/// length.
fn network(from: IpAddr, to: IpAddr) -> Result<IpHeaders, TraceError> {
    Ok(match (from, to) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let header = Ipv4Header {
                time_to_live: HOP_LIMIT,
                source: source.octets(),
                destination: destination.octets(),
                dont_fragment: true,
                ..Ipv4Header::default()
            };
            IpHeaders::Ipv4(header, Ipv4Extensions::default())
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let header = Ipv6Header {
                hop_limit: HOP_LIMIT,
                source: source.octets(),
                destination: destination.octets(),
                ..Ipv6Header::default()
            };
            IpHeaders::Ipv6(header, Ipv6Extensions::default())
        }
        (from, to) => return Err(TraceError::Families(from, to)),
    })
}

fn segment(from: u16, to: u16, Flags(flags): Flags) -> TcpHeader {
    let has = |flag: u8| flags & flag != 0;
    TcpHeader {
        acknowledgment_number: has(16).into(),
        fin: has(1),
        syn: has(2),
        rst: has(4),
        psh: has(8),
        ack: has(16),
        urg: has(32),
        ece: has(64),
        cwr: has(128),
        ..TcpHeader::new(from, to, 1, u16::MAX)
    }
}

/// A packet of SCTP with an INIT chunk (RFC 9260 section 3.3.2).
fn init(from: u16, to: u16, rest: &[u8]) -> Vec<u8> {
    let mut packet = [
        from.to_be_bytes(),
        to.to_be_bytes(),
        [0; 2],
        [0; 2],
        [0; 2],
        [0; 2],
    ]
    .concat();
    packet.extend([1, 0, 0, 20, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1]);
    packet.extend_from_slice(rest);
    // RFC 9260 appendix A: the sum's lowest byte stands first.
    let sum = crc32c::crc32c(&packet);
    packet[8..12].copy_from_slice(&sum.to_le_bytes());
    packet
}

/// As a router leaves a packet that goes on: one hop less to go.
pub(crate) fn take_hop(frame: &mut [u8], is_ethernet: bool) {
    let network = if is_ethernet { ETHERNET } else { 0 };
    let Some(packet) = frame.get_mut(network..) else {
        return;
    };
    if let Ok((mut header, _)) = Ipv4Header::from_slice(packet) {
        header.time_to_live = header.time_to_live.saturating_sub(1);
        header.header_checksum = header.calc_header_checksum();
        let header = header.to_bytes();
        packet[..header.len()].copy_from_slice(&header);
    } else if let Ok((mut header, _)) = Ipv6Header::from_slice(packet) {
        header.hop_limit = header.hop_limit.saturating_sub(1);
        packet[..Ipv6Header::LEN].copy_from_slice(&header.to_bytes());
    }
}

/// The packet with the link's header of another interface.
pub(crate) fn relink(frame: &[u8], was_ethernet: bool, to: &Interface) -> Vec<u8> {
    let packet = frame.get(if was_ethernet { ETHERNET } else { 0 }..);
    let packet = packet.unwrap_or_default();
    let mut new = Vec::new();
    if to.is_ethernet {
        let header = Ethernet2Header {
            source: to.link_address.unwrap_or(LinkAddress([0; 6])).0,
            destination: [0; 6],
            ether_type: ether_type(packet.first().is_some_and(|first| first >> 4 == 6)),
        };
        new.extend(header.to_bytes());
    }
    new.extend_from_slice(packet);
    new
}

#[cfg(test)]
mod tests {
    use crc32c::crc32c;
    use etherparse::checksum::Sum16BitWords;

    use super::*;
    use crate::trace::read::Read;

    fn checksum(bytes: &[u8]) -> u16 {
        Sum16BitWords::new().add_slice(bytes).ones_complement()
    }

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
        assert_eq!(checksum(&frame[..20]), 0);
    }

    #[test]
    fn crc32c_is_that_of_rfc_3720() {
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
    }
}
