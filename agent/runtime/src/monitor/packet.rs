//! The headers of a packet, from its first bytes.

use etherparse::{EtherType, Ethernet2HeaderSlice, IpNumber, Ipv6ExtensionSlice, LaxIpSlice};
use shunt_api::view::End;

/// The protocols with ports.
const WITH_PORTS: [IpNumber; 3] = [IpNumber::TCP, IpNumber::UDP, IpNumber::SCTP];

/// Content of a packet's headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Headers {
    /// True if the packet begins with an Ethernet header.
    pub(super) is_ethernet: bool,
    pub(super) protocol: u8,
    pub(super) source: End,
    pub(super) destination: End,
}

impl Headers {
    /// Reads them; `None` if the bytes are of no IP packet. Ports that there are none of, or that are not among the
    /// bytes, are 0.
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        let ethernet = Ethernet2HeaderSlice::from_slice(bytes).ok();
        let ethernet = ethernet
            .filter(|header| [EtherType::IPV4, EtherType::IPV6].contains(&header.ether_type()));
        let link = ethernet.as_ref().map_or(0, |header| header.slice().len());
        let (packet, _) = LaxIpSlice::from_slice(&bytes[link..]).ok()?;
        let payload = packet.payload();
        let has_ports = WITH_PORTS.contains(&payload.ip_number) && !is_later_fragment(&packet);
        let ports = if has_ports { payload.payload } else { &[] };
        let port = |place: usize| match ports.get(place..place + 2) {
            Some(&[high, low]) => u16::from_be_bytes([high, low]),
            _ => 0,
        };
        Some(Self {
            is_ethernet: ethernet.is_some(),
            protocol: payload.ip_number.0,
            source: End {
                ip: packet.source_addr(),
                port: port(0),
            },
            destination: End {
                ip: packet.destination_addr(),
                port: port(2),
            },
        })
    }
}

/// Returns whether the payload begins in the middle of what was sent.
fn is_later_fragment(packet: &LaxIpSlice<'_>) -> bool {
    match packet {
        LaxIpSlice::Ipv4(packet) => packet.header().fragments_offset().value() != 0,
        LaxIpSlice::Ipv6(packet) => packet.extensions().clone().into_iter().any(|header| {
            matches!(header, Ipv6ExtensionSlice::Fragment(header) if header.fragment_offset().value() != 0)
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of extension headers (RFC 8200 section 4).
    const HOP_BY_HOP: u8 = 0;
    const FRAGMENT: u8 = 44;

    /// An IPv4 header with this protocol, and this offset of fragments.
    fn v4_header(protocol: u8, offset: u16) -> Vec<u8> {
        let mut header = vec![0x45, 0, 0, 28, 0, 0];
        header.extend(offset.to_be_bytes());
        header.extend([64, protocol, 0, 0, 10, 1, 1, 5, 10, 96, 0, 10]);
        header
    }

    const PORTS: [u8; 4] = [0x9c, 0x40, 0, 80];

    fn ends(bytes: &[u8]) -> Option<(bool, u8, String, String)> {
        let headers = Headers::of(bytes)?;
        Some((
            headers.is_ethernet,
            headers.protocol,
            headers.source.to_string(),
            headers.destination.to_string(),
        ))
    }

    fn of(
        is_ethernet: bool,
        protocol: u8,
        source: &str,
        destination: &str,
    ) -> (bool, u8, String, String) {
        (is_ethernet, protocol, source.into(), destination.into())
    }

    #[test]
    fn a_packet_is_read_with_and_without_a_link_header() {
        let packet = [v4_header(6, 0), PORTS.to_vec()].concat();
        let expected = |is_ethernet| Some(of(is_ethernet, 6, "10.1.1.5:40000", "10.96.0.10:80"));
        assert_eq!(ends(&packet), expected(false));
        let frame = [vec![2; 12], vec![0x08, 0x00], packet].concat();
        assert_eq!(ends(&frame), expected(true));
    }

    #[test]
    fn what_has_no_ports_has_ports_of_0() {
        let later = [v4_header(17, 5), PORTS.to_vec()].concat();
        let echo = [v4_header(1, 0), PORTS.to_vec()].concat();
        let cut = v4_header(6, 0);
        for (packet, protocol) in [(later, 17), (echo, 1), (cut, 6)] {
            assert_eq!(
                ends(&packet),
                Some(of(false, protocol, "10.1.1.5:0", "10.96.0.10:0"))
            );
        }
    }

    #[test]
    fn extension_headers_are_walked_over() {
        let header = |next: u8| {
            let mut header = vec![0x60, 0, 0, 0, 0, 20, next, 64];
            for last in [5, 10] {
                header.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
            }
            header
        };
        let options = [HOP_BY_HOP, 0, 0, 0, 0, 0, 0, 0];
        let mut first = options;
        first[0] = FRAGMENT;
        let mut fragment = [0; 8];
        fragment[0] = 17;
        let packet = [
            header(HOP_BY_HOP),
            first.to_vec(),
            fragment.to_vec(),
            PORTS.to_vec(),
        ]
        .concat();
        assert_eq!(
            ends(&packet),
            Some(of(false, 17, "[fd00::5]:40000", "[fd00::a]:80"))
        );
        fragment[2] = 1;
        let packet = [header(FRAGMENT), fragment.to_vec(), PORTS.to_vec()].concat();
        let expected = of(false, 17, "[fd00::5]:0", "[fd00::a]:0");
        assert_eq!(ends(&packet), Some(expected));
    }

    #[test]
    fn bytes_that_are_no_packet_are_nobodys() {
        for length in 0..64 {
            Headers::of(&vec![0; length]);
            Headers::of(&vec![0x45; length]);
            Headers::of(&vec![0x60; length]);
            Headers::of(&vec![0xff; length]);
        }
        assert_eq!(Headers::of(&[]), None);
        assert_eq!(Headers::of(&[0; 64]), None);
    }
}
