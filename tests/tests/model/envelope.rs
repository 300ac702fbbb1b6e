//! Packets inside others of their family: RFC 2003, RFC 2473.

use std::net::IpAddr;

use etherparse::{IpDscp, IpEcn, IpNumber, Ipv4Header, Ipv6FlowLabel, Ipv6Header};

use super::{
    addresses::{NODE, OTHER_NODE, OTHER_NODE_TOO, THIRD_NODE, dsr_source},
    wire::{ETHERNET, Packet, bytes, is_intact},
};

/// The numbers of the packet inside, by family.
const NUMBERS: [u8; 2] = [4, 41];

/// Returns the length of an envelope's header.
pub(crate) const fn header_length(is_ipv4: bool) -> usize {
    if is_ipv4 { 20 } else { 40 }
}

/// An envelope that came in.
#[derive(Debug)]
pub(crate) struct Envelope {
    pub source: IpAddr,
    pub destination: IpAddr,
    /// Its congestion mark.
    pub mark: u8,
    pub hops: u8,
    /// The frame without it.
    pub inner: Vec<u8>,
}

impl Envelope {
    /// Reads a frame; `None` if it is no envelope around a packet that both are all there.
    pub(crate) fn read(frame: &[u8]) -> Option<Self> {
        let is_ipv4 = match frame.get(12..ETHERNET)? {
            [0x08, 0x00] => true,
            [0x86, 0xdd] => false,
            _ => return None,
        };
        let length = header_length(is_ipv4);
        let header = frame.get(ETHERNET..ETHERNET + length)?;
        let [v4, v6] = NUMBERS;
        let is_one = if is_ipv4 {
            let is_part = header[6] & 0x3f != 0 || header[7] != 0;
            header[0] == 0x45 && !is_part && header[9] == v4 && is_intact(header)
        } else {
            header[0] >> 4 == 6 && header[6] == v6
        };
        let inner = [&frame[..ETHERNET], &frame[ETHERNET + length..]].concat();
        let packet = Packet::read(&inner).ok().filter(|_| is_one)?;
        let said = |place| bytes::<2>(header, place).map(u16::from_be_bytes);
        let end = if is_ipv4 {
            ETHERNET + usize::from(said(2).ok()?)
        } else {
            ETHERNET + length + usize::from(said(4).ok()?)
        };
        if end > frame.len() || packet.end + length > end {
            return None;
        }
        let (source, destination) = if is_ipv4 {
            let at = |place| bytes::<4>(header, place).map(IpAddr::from);
            (at(12).ok()?, at(16).ok()?)
        } else {
            let at = |place| bytes::<16>(header, place).map(IpAddr::from);
            (at(8).ok()?, at(24).ok()?)
        };
        Some(Self {
            source,
            destination,
            mark: mark(frame, is_ipv4),
            hops: header[if is_ipv4 { 8 } else { 7 }],
            inner,
        })
    }
}

/// Returns the congestion mark of a frame's network header (RFC 3168 section 5).
fn mark(frame: &[u8], is_ipv4: bool) -> u8 {
    let byte = frame[ETHERNET + 1];
    if is_ipv4 { byte & 3 } else { byte >> 4 & 3 }
}

/// Returns a packet's congestion mark out of its envelope; `None`: it is dropped (RFC 6040 section 4.2).
pub(crate) const fn combined(inner: u8, outer: u8) -> Option<u8> {
    match (inner, outer) {
        (0, 3) => None,
        (0, _) => Some(0),
        (2, 1) => Some(1),
        (_, 3) => Some(3),
        (inner, _) => Some(inner),
    }
}

/// An envelope around a packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Enclosed {
    /// Of a few that may send one, the other nodes first, then those of ranges for it.
    pub from: u8,
    /// Of a few that may get one, this node first.
    pub to: u8,
    /// Its service class, with its congestion mark.
    pub class: u8,
    pub hops: u8,
    /// True if it is in another such envelope.
    pub twice: bool,
}

impl Enclosed {
    /// The packet inside, of the family of `like`.
    pub(crate) fn around(self, packet: &[u8], like: IpAddr) -> Vec<u8> {
        let nodes = [OTHER_NODE, THIRD_NODE, OTHER_NODE_TOO, NODE].map(|node| node.like(like));
        let second_range: IpAddr = match like {
            IpAddr::V4(_) => [100, 127, 3, 9].into(),
            IpAddr::V6(_) => [0xfd00, 6, 0, 0, 0, 0, 0, 0xfe01].into(),
        };
        let beyond: IpAddr = match like {
            IpAddr::V4(_) => [172, 32, 0, 0].into(),
            IpAddr::V6(_) => [0xfd00, 6, 0, 0, 0, 0, 1, 1].into(),
        };
        let ranges = [dsr_source(0x0706_0504, like), second_range, beyond];
        let stranger: IpAddr = match like {
            IpAddr::V4(_) => [198, 51, 100, 5].into(),
            IpAddr::V6(_) => [0x2001, 0xdb8, 0x51, 0, 0, 0, 0, 5].into(),
        };
        let mut senders = nodes.into_iter().chain(ranges);
        let from = senders.nth(self.from.into()).unwrap_or(stranger);
        let to = [NODE, OTHER_NODE][usize::from(self.to) % 2].like(like);
        let class = Class {
            class: self.class,
            label: 0,
            hops: self.hops,
        };
        enclose(packet, from, to, class)
    }
}

/// A packet in an envelope between these addresses, which is of this class.
fn enclose(packet: &[u8], source: IpAddr, destination: IpAddr, class: Class) -> Vec<u8> {
    let [v4, v6] = NUMBERS.map(IpNumber);
    let Class { class, label, hops } = class;
    match (source, destination) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let (from, to) = (from.octets(), to.octets());
            let mut header = Ipv4Header::new(packet.len() as u16, hops, v4, from, to).unwrap();
            header.dscp = IpDscp::try_new(class >> 2).unwrap();
            header.ecn = IpEcn::try_new(class & 3).unwrap();
            header.dont_fragment = true;
            header.header_checksum = header.calc_header_checksum();
            [&header.to_bytes(), packet].concat()
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let header = Ipv6Header {
                traffic_class: class,
                flow_label: Ipv6FlowLabel::try_new(label).unwrap(),
                payload_length: packet.len() as u16,
                next_header: v6,
                hop_limit: hops,
                source: from.octets(),
                destination: to.octets(),
            };
            [&header.to_bytes(), packet].concat()
        }
        _ => unreachable!("a packet is of one family"),
    }
}

/// A packet's treatment by routers: its class, IPv6's flow label, and its hop limit.
#[derive(Debug, Clone, Copy)]
struct Class {
    class: u8,
    label: u32,
    hops: u8,
}

impl Packet<'_> {
    /// Returns its congestion mark.
    pub(crate) fn mark(&self) -> u8 {
        mark(self.frame, self.is_ipv4())
    }

    /// The frame one hop further and in an envelope of the same class. What the frame has behind the
    /// packet goes along.
    pub(crate) fn enclosed(&self, source: IpAddr, destination: IpAddr) -> Vec<u8> {
        let frame = Packet::forwarded(self.frame.to_vec());
        let (link, rest) = frame.split_at(ETHERNET);
        let (packet, behind) = rest.split_at(self.end - ETHERNET);
        let word = [0, 1, 2, 3].map(|place| packet[place]);
        let word = u32::from_be_bytes(word);
        let hops = if self.is_handed_over { 255 } else { 64 };
        let class = if self.is_ipv4() {
            Class {
                class: packet[1],
                label: 0,
                hops,
            }
        } else {
            Class {
                class: (word >> 20) as u8,
                label: word & 0xf_ffff,
                hops,
            }
        };
        [link, &enclose(packet, source, destination, class), behind].concat()
    }
}
