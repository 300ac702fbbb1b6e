//! Whose a packet is, by its first bytes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use shunt_api::view::End;

/// `ETH_P_IP` and `ETH_P_IPV6` of `linux/if_ether.h`.
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];
/// An Ethernet header, RFC 894.
const ETHERNET: usize = 14;

/// Extension headers of IPv6 that are walked over (RFC 8200 section 4).
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION: u8 = 60;
/// The protocols with ports.
const WITH_PORTS: [u8; 3] = [6, 17, 132];

/// What the headers of a packet say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Headers {
    /// Whether the packet begins with an Ethernet header.
    pub(super) is_ethernet: bool,
    pub(super) protocol: u8,
    pub(super) source: End,
    pub(super) destination: End,
}

impl Headers {
    /// Reads them; `None` if the bytes are of no IP packet. Ports that there are none of, or that are not among the
    /// bytes, are 0.
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        let kind = bytes.get(ETHERNET - 2..ETHERNET);
        let is_ethernet = kind.is_some_and(|kind| kind == IPV4 || kind == IPV6);
        let packet = if is_ethernet {
            &bytes[ETHERNET..]
        } else {
            bytes
        };
        let (protocol, addresses, transport) = match packet.first()? >> 4 {
            4 => v4(packet)?,
            6 => v6(packet)?,
            _ => return None,
        };
        let [source, destination] = addresses;
        let ports = transport.filter(|_| WITH_PORTS.contains(&protocol));
        let port = |place: usize| {
            let bytes = ports?.get(place..place + 2)?;
            Some(u16::from_be_bytes([bytes[0], bytes[1]]))
        };
        Some(Self {
            is_ethernet,
            protocol,
            source: End {
                ip: source,
                port: port(0).unwrap_or_default(),
            },
            destination: End {
                ip: destination,
                port: port(2).unwrap_or_default(),
            },
        })
    }
}

/// The protocol, the two addresses, and what follows the network header, if it has the ports.
type Network<'a> = (u8, [IpAddr; 2], Option<&'a [u8]>);

/// RFC 791 section 3.1.
fn v4(packet: &[u8]) -> Option<Network<'_>> {
    let header: &[u8; 20] = packet.first_chunk()?;
    let address = |place: usize| {
        let bytes: [u8; 4] = header[place..place + 4].try_into().ok()?;
        Some(IpAddr::from(Ipv4Addr::from(bytes)))
    };
    let is_later = u16::from_be_bytes([header[6], header[7]]) & 0x1fff != 0;
    let length = usize::from(header[0] & 15) * 4;
    let transport = packet.get(length..).filter(|_| !is_later);
    Some((header[9], [address(12)?, address(16)?], transport))
}

/// RFC 8200 section 3.
fn v6(packet: &[u8]) -> Option<Network<'_>> {
    let (header, mut rest) = packet.split_first_chunk::<40>()?;
    let address = |place: usize| {
        let bytes: [u8; 16] = header[place..place + 16].try_into().ok()?;
        Some(IpAddr::from(Ipv6Addr::from(bytes)))
    };
    let addresses = [address(8)?, address(24)?];
    let mut protocol = header[6];
    loop {
        let length = match (protocol, rest) {
            (HOP_BY_HOP | ROUTING | DESTINATION, [_, length, ..]) => 8 + usize::from(*length) * 8,
            (FRAGMENT, [_, _, high, low, ..]) => {
                if u16::from_be_bytes([*high, *low]) >> 3 != 0 {
                    return Some((rest[0], addresses, None));
                }
                8
            }
            _ => return Some((protocol, addresses, Some(rest))),
        };
        protocol = rest[0];
        let Some(next) = rest.get(length..) else {
            return Some((protocol, addresses, None));
        };
        rest = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let frame = [vec![2; 12], IPV4.to_vec(), packet].concat();
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
