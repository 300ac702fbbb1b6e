//! The frame that a packet becomes. Checksums are summed anew over all that they cover, by
//! libraries, before and after: one that was right is right again, and one that was wrong is wrong
//! by as much as before.

use std::net::IpAddr;

use etherparse::{
    Icmpv4Type, Icmpv6Header, Icmpv6Type, IpNumber, Ipv4Header, Ipv6FlowLabel, Ipv6Header,
    checksum::Sum16BitWords, icmpv4, icmpv6,
};

use super::{
    cluster::{Endpoint, Protocol},
    wire::{ETHERNET, Form, Packet, Quote},
};

/// The ends between which a packet goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Between {
    pub source: Endpoint,
    pub destination: Endpoint,
}

/// Reason why a packet goes no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    NobodyListens,
    HopsUsedUp,
}

/// A checksum: where it is, and what it covers.
struct Covering {
    field: usize,
    from: usize,
    to: usize,
    /// The network header whose addresses it covers besides.
    addresses: Option<usize>,
}

impl Covering {
    /// The sum over all of it, but for the checksum.
    fn sum(&self, frame: &[u8], is_ipv4: bool) -> u16 {
        let mut sum = Sum16BitWords::new()
            .add_slice(&frame[self.from..self.field])
            .add_slice(&frame[self.field + 2..self.to]);
        if let Some(network) = self.addresses {
            let (at, length) = address_place(network, is_ipv4);
            sum = sum.add_slice(&frame[at..at + 2 * length]);
        }
        !sum.ones_complement()
    }

    /// The checksum in `after`, so that it is as wrong as it was in `before`.
    fn renew(&self, before: &[u8], after: &mut [u8], is_ipv4: bool) {
        let field = self.field..self.field + 2;
        let [a, b] = [before[self.field], before[self.field + 1]];
        let checksum = Sum16BitWords::new()
            .add_2bytes((!u16::from_ne_bytes([a, b])).to_ne_bytes())
            .add_2bytes((!self.sum(before, is_ipv4)).to_ne_bytes())
            .add_2bytes(self.sum(after, is_ipv4).to_ne_bytes())
            .ones_complement();
        after[field].copy_from_slice(&checksum.to_ne_bytes());
    }

    /// As [`renew`](Self::renew), of UDP: 0 is none, and none stays none (RFC 768).
    fn renew_unless_none(&self, before: &[u8], after: &mut [u8], is_ipv4: bool) {
        let field = self.field..self.field + 2;
        if before[field.clone()] == [0, 0] {
            return;
        }
        self.renew(before, after, is_ipv4);
        if after[field.clone()] == [0, 0] {
            after[field].fill(0xff);
        }
    }
}

/// Returns the offset of a network header's addresses, and the length of one.
const fn address_place(network: usize, is_ipv4: bool) -> (usize, usize) {
    if is_ipv4 {
        (network + 12, 4)
    } else {
        (network + 8, 16)
    }
}

fn write_ip(frame: &mut [u8], at: usize, ip: IpAddr) {
    match ip {
        IpAddr::V4(ip) => frame[at..at + 4].copy_from_slice(&ip.octets()),
        IpAddr::V6(ip) => frame[at..at + 16].copy_from_slice(&ip.octets()),
    }
}

fn write_ips(frame: &mut [u8], network: usize, source: IpAddr, destination: IpAddr) {
    let (at, length) = address_place(network, source.is_ipv4());
    write_ip(frame, at, source);
    write_ip(frame, at + length, destination);
}

fn write_ports(frame: &mut [u8], transport: usize, source: u16, destination: u16) {
    frame[transport..transport + 2].copy_from_slice(&source.to_be_bytes());
    frame[transport + 2..transport + 4].copy_from_slice(&destination.to_be_bytes());
}

impl Packet<'_> {
    /// The frame with other ends; `None` if it cannot be made: SCTP's checksum needs the whole
    /// packet's length, which a fragment does not have.
    pub(crate) fn between(&self, to: Between) -> Option<Vec<u8>> {
        let Between {
            source,
            destination,
        } = to;
        let is_ipv4 = self.is_ipv4();
        let mut after = self.frame.to_vec();
        if let Some(quote) = self.quote {
            self.rewrite_error(&mut after, quote, to);
            return Some(after);
        }
        write_ips(&mut after, ETHERNET, source.ip, destination.ip);
        self.renew_header(&mut after, ETHERNET, self.transport);
        if self.form == Form::Later {
            return Some(after);
        }
        write_ports(&mut after, self.transport, source.port, destination.port);
        if self.ends.protocol == Protocol::SCTP {
            let ports = (self.ends.source.port, self.ends.destination.port);
            let same = ports == (source.port, destination.port);
            if !same && self.form == Form::First {
                return None;
            }
            self.renew_crc(&mut after);
        } else {
            let covering = self.transport_checksum(ETHERNET, self.transport);
            self.renew_transport(&covering, &mut after, is_ipv4);
        }
        Some(after)
    }

    /// The frame with this congestion mark.
    pub(crate) fn marked(&self, mark: u8) -> Vec<u8> {
        let mut after = self.frame.to_vec();
        let byte = &mut after[ETHERNET + 1];
        *byte = if self.is_ipv4() {
            *byte & !3 | mark
        } else {
            *byte & !0x30 | mark << 4
        };
        self.renew_header(&mut after, ETHERNET, self.transport);
        after
    }

    /// The frame one hop further.
    pub(crate) fn forwarded(frame: Vec<u8>) -> Vec<u8> {
        let mut after = frame;
        let before = after.clone();
        if let Ok(packet) = Packet::read(&before) {
            let is_ipv4 = packet.is_ipv4();
            let field = ETHERNET + if is_ipv4 { 8 } else { 7 };
            after[field] -= 1;
            packet.renew_header(&mut after, ETHERNET, packet.transport);
        }
        after
    }

    /// The frame, sent back to the station that it came from.
    pub(crate) fn turned(mut frame: Vec<u8>) -> Vec<u8> {
        let (to, from) = frame[..12].split_at_mut(6);
        to.swap_with_slice(from);
        frame
    }

    /// The ICMP error that answers it: from its destination, quoting its network and transport
    /// header.
    pub(crate) fn error(&self, trouble: Trouble) -> Vec<u8> {
        let mut answer = Self::turned(self.frame[..ETHERNET].to_vec());
        let quoted = &self.frame[ETHERNET..self.transport + self.least_length];
        let length = (8 + quoted.len()) as u16;
        match (self.ends.destination.ip, self.ends.source.ip) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let kind = match trouble {
                    Trouble::NobodyListens => {
                        Icmpv4Type::DestinationUnreachable(icmpv4::DestUnreachableHeader::Port)
                    }
                    Trouble::HopsUsedUp => {
                        Icmpv4Type::TimeExceeded(icmpv4::TimeExceededCode::TtlExceededInTransit)
                    }
                };
                let (from, to) = (from.octets(), to.octets());
                let mut header = Ipv4Header::new(length, 64, IpNumber::ICMP, from, to).unwrap();
                header.dont_fragment = true;
                header.header_checksum = header.calc_header_checksum();
                answer.extend(header.to_bytes());
                answer.extend(etherparse::Icmpv4Header::with_checksum(kind, quoted).to_bytes());
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let kind = match trouble {
                    Trouble::NobodyListens => {
                        Icmpv6Type::DestinationUnreachable(icmpv6::DestUnreachableCode::Port)
                    }
                    Trouble::HopsUsedUp => {
                        Icmpv6Type::TimeExceeded(icmpv6::TimeExceededCode::HopLimitExceeded)
                    }
                };
                let (source, destination) = (from.octets(), to.octets());
                let header = Ipv6Header {
                    traffic_class: 0,
                    flow_label: Ipv6FlowLabel::ZERO,
                    payload_length: length,
                    next_header: IpNumber::IPV6_ICMP,
                    hop_limit: 64,
                    source,
                    destination,
                };
                answer.extend(header.to_bytes());
                let icmp = Icmpv6Header::with_checksum(kind, source, destination, quoted);
                answer.extend(icmp.unwrap().to_bytes());
            }
            _ => unreachable!("a packet is of one family"),
        }
        answer.extend(quoted);
        answer
    }

    /// The packet's own, or the quoted, transport checksum.
    fn transport_checksum(&self, network: usize, transport: usize) -> Covering {
        let field = match self.ends.protocol {
            Protocol::TCP => 16,
            _ => 6,
        };
        Covering {
            field: transport + field,
            from: transport,
            to: self.end,
            addresses: Some(network),
        }
    }

    /// The segment's checksum in `after`, as right or wrong as in `before`.
    pub(crate) fn renew_segment(&self, before: &[u8], after: &mut [u8]) {
        let covering = self.transport_checksum(ETHERNET, self.transport);
        covering.renew(before, after, self.is_ipv4());
    }

    fn renew_transport(&self, covering: &Covering, after: &mut [u8], is_ipv4: bool) {
        match self.ends.protocol {
            Protocol::TCP => covering.renew(self.frame, after, is_ipv4),
            _ => covering.renew_unless_none(self.frame, after, is_ipv4),
        }
    }

    /// The header checksum that only IPv4 has.
    fn renew_header(&self, after: &mut [u8], network: usize, end: usize) {
        if self.is_ipv4() {
            let covering = Covering {
                field: network + 10,
                from: network,
                to: end,
                addresses: None,
            };
            covering.renew(self.frame, after, true);
        }
    }

    /// CRC32c of the whole packet without it, RFC 9260 section 6.8; 0 is yet to be filled in.
    fn renew_crc(&self, after: &mut [u8]) {
        let field = self.transport + 8..self.transport + 12;
        let was = &self.frame[field.clone()];
        if was == [0; 4] {
            return;
        }
        let crc = |frame: &[u8]| {
            let mut packet = frame[self.transport..self.end].to_vec();
            packet[8..12].fill(0);
            crc32c::crc32c(&packet).to_le_bytes()
        };
        let (before, now) = (crc(self.frame), crc(after));
        let renewed: Vec<u8> = (0..4)
            .map(|byte| was[byte] ^ before[byte] ^ now[byte])
            .collect();
        after[field].copy_from_slice(&renewed);
    }

    /// An error about a packet gets that packet's new ends, reversed; its reporter stays, unless
    /// the flow's packets get another source in this direction.
    fn rewrite_error(&self, after: &mut [u8], quote: Quote, to: Between) {
        let is_ipv4 = self.is_ipv4();
        let Between {
            source,
            destination,
        } = to;
        write_ips(after, quote.network, destination.ip, source.ip);
        self.renew_header(after, quote.network, quote.transport);
        write_ports(after, quote.transport, destination.port, source.port);
        let covering = self.transport_checksum(quote.network, quote.transport);
        // The quote may end before its checksum; SCTP's is that of a whole packet.
        if self.ends.protocol != Protocol::SCTP && covering.field + 2 <= self.end {
            self.renew_transport(&covering, after, is_ipv4);
        }
        let reporter = if source.ip == self.ends.source.ip {
            quote.reporter
        } else {
            source.ip
        };
        write_ips(after, ETHERNET, reporter, destination.ip);
        self.renew_header(after, ETHERNET, self.transport);
        let icmp = Covering {
            field: self.transport + 2,
            from: self.transport,
            to: self.end,
            addresses: (!is_ipv4).then_some(ETHERNET),
        };
        icmp.renew(self.frame, after, is_ipv4);
    }
}
