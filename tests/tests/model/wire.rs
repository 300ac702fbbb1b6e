//! The meaning of a frame's bytes, as the RFCs and the documentation of the programs' parser have
//! it. Headers are within the packet: what the frame has behind its end is padding.

use std::net::IpAddr;

use super::{
    cluster::{Endpoint, Protocol},
    extensions::{self, Walk},
    flow::Ends,
};

/// Offset of the network header.
pub(crate) const ETHERNET: usize = 14;
/// The header of an ICMP error, in both families.
pub(crate) const ICMP_HEADER: usize = 8;

/// Reason why a frame is passed as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unread {
    /// It is something that is not translated.
    Foreign,
    /// It is shorter than by its headers.
    Truncated,
    /// It has more extension headers than are walked.
    TooManyHeaders,
}

/// A packet's relation to its flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Whole,
    /// The begin of a datagram, with the ports.
    First,
    /// Another part of it.
    Later,
    /// An ICMP error about a packet of the flow.
    Error,
}

/// A datagram, as all of its fragments name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Datagram {
    pub source: IpAddr,
    pub destination: IpAddr,
    pub identification: u32,
    /// Of IPv4; 0 of IPv6.
    pub protocol: u8,
}

/// Place of the packet that an error quotes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quote {
    pub reporter: IpAddr,
    pub network: usize,
    pub transport: usize,
}

/// A packet's meaning for its flow.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Says {
    /// It is a SYN or INIT.
    pub opens: bool,
    /// It is a SYN-ACK or INIT ACK.
    pub answers: bool,
    /// It is a segment that acknowledges this.
    pub acknowledges: Option<u32>,
    /// It ends its sender's data.
    pub ends: bool,
    /// It is a segment with data.
    pub has_data: bool,
    /// It ends the flow.
    pub resets: bool,
    /// Of a SYN or RST its number, of a SYN-ACK the one that acknowledges it, of others that which they
    /// acknowledge.
    pub number: u32,
    /// The acknowledgment number of a SYN-ACK or RST; what acknowledges a FIN.
    pub other: u32,
}

/// A frame that may concern a flow.
#[derive(Debug, Clone)]
pub(crate) struct Packet<'a> {
    pub frame: &'a [u8],
    pub form: Form,
    /// The ends; of an error those of a packet that goes its way, of a later fragment without
    /// ports.
    pub ends: Ends,
    /// True if it may be the first of a flow.
    pub opens: bool,
    pub says: Says,
    /// True if it is a whole segment or datagram without IP options or extension headers.
    pub is_plain: bool,
    /// True if the header's checksum is right.
    pub is_intact: bool,
    /// True if its sender chose the way that it goes.
    pub has_source_route: bool,
    pub hop_limit: u8,
    /// For another station.
    pub overheard: bool,
    /// Another node has sent it here in an envelope.
    pub is_handed_over: bool,
    /// That was not the first one.
    pub is_handed_on: bool,
    /// The datagram that it is a part of, if it is a fragment.
    pub datagram: Datagram,
    /// Offsets of the transport header, and of the packet's end.
    pub transport: usize,
    pub end: usize,
    /// Length of the transport header without options.
    pub least_length: usize,
    pub quote: Option<Quote>,
}

/// Content of a network header.
struct Network {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    hop_limit: u8,
    transport: usize,
    end: usize,
    form: Form,
    identification: u32,
}

/// Returns whether a frame, with an Ethernet header, is for another station, and not for several.
pub(crate) fn is_for_other_station(frame: &[u8]) -> bool {
    frame[..6] != [0; 6] && frame[0] & 1 == 0
}

/// Bytes of the frame from `offset` on.
pub(crate) fn bytes<const N: usize>(frame: &[u8], offset: usize) -> Result<[u8; N], Unread> {
    let bytes = frame.get(offset..offset + N).ok_or(Unread::Truncated)?;
    bytes.try_into().map_err(|_| Unread::Truncated)
}

/// A 16-bit field.
pub(crate) fn word(frame: &[u8], offset: usize) -> Result<u16, Unread> {
    bytes(frame, offset).map(u16::from_be_bytes)
}

impl<'a> Packet<'a> {
    /// Reads a frame.
    pub(crate) fn read(frame: &'a [u8]) -> Result<Self, Unread> {
        let is_ipv4 = match word(frame, 12)? {
            0x0800 => true,
            0x86dd => false,
            _ => return Err(Unread::Foreign),
        };
        let network = Network::read(frame, ETHERNET, is_ipv4)?;
        if network.end > frame.len() || network.transport > network.end {
            return Err(Unread::Truncated);
        }
        let mut packet = Self {
            frame,
            form: network.form,
            ends: Ends {
                protocol: Protocol(network.protocol),
                source: Endpoint {
                    ip: network.source,
                    port: 0,
                },
                destination: Endpoint {
                    ip: network.destination,
                    port: 0,
                },
            },
            opens: false,
            says: Says::default(),
            is_plain: false,
            is_intact: !is_ipv4 || is_intact(&frame[ETHERNET..network.transport]),
            has_source_route: is_ipv4 && has_source_route(&frame[ETHERNET..network.transport]),
            hop_limit: network.hop_limit,
            overheard: is_for_other_station(frame),
            is_handed_over: false,
            is_handed_on: false,
            datagram: Datagram {
                source: network.source,
                destination: network.destination,
                identification: network.identification,
                protocol: if is_ipv4 { network.protocol } else { 0 },
            },
            transport: network.transport,
            end: network.end,
            least_length: 0,
            quote: None,
        };
        match (network.form, network.protocol) {
            (Form::Later, _) => {}
            (Form::Whole, 1) if is_ipv4 => packet.read_error(is_ipv4)?,
            (Form::Whole, 58) if !is_ipv4 => packet.read_error(is_ipv4)?,
            _ => packet.read_transport()?,
        }
        let shortest = ETHERNET + if is_ipv4 { 20 } else { 40 };
        packet.is_plain = packet.form == Form::Whole
            && network.transport == shortest
            && matches!(network.protocol, 6 | 17);
        Ok(packet)
    }

    /// The packet as it is out of an envelope: no fast path takes it.
    pub(crate) fn handed_over(self, is_handed_on: bool) -> Self {
        Self {
            is_handed_over: true,
            is_handed_on,
            is_plain: false,
            ..self
        }
    }

    /// Returns its counter once it is translated, if it is `usually` a flow's own.
    pub(crate) const fn counts_as(&self, usually: &'static str) -> &'static str {
        match self.form {
            Form::Whole | Form::First => usually,
            Form::Later => "fragment",
            Form::Error => "icmp_error",
        }
    }

    /// Returns whether it is a SYN by its flags, even if it is a reset too.
    pub(crate) fn is_syn(&self) -> bool {
        self.opens && self.ends.protocol == Protocol::TCP
    }

    /// Returns whether its sender may get an error about it: it is no error, has its datagram's begin, came as
    /// it was sent, and its link's and its own header name single hosts (RFC 1122 sections 3.2.1.2
    /// and 3.2.2, RFC 4443 section 2.4).
    pub(crate) fn may_be_told_about(&self) -> bool {
        let has_begin = matches!(self.form, Form::Whole | Form::First);
        let is_of_group = (self.frame[0] | self.frame[6]) & 1 != 0;
        let (source, destination) = (self.ends.source.ip, self.ends.destination.ip);
        has_begin && !is_of_group && is_host(source) && is_host(destination) && self.is_intact
    }

    /// Returns whether no router takes it on, because of where it comes from.
    pub(crate) fn is_martian(&self) -> bool {
        match self.ends.source.ip {
            IpAddr::V4(ip) => {
                matches!(ip.octets()[0], 0 | 127) || ip.is_multicast() || ip.is_broadcast()
            }
            IpAddr::V6(ip) => {
                let is_link_local = ip.segments()[0] & 0xffc0 == 0xfe80;
                !is_host(ip.into()) || is_link_local || ip.to_ipv4_mapped().is_some()
            }
        }
    }

    /// Returns whether it is IPv4.
    pub(crate) const fn is_ipv4(&self) -> bool {
        self.ends.source.ip.is_ipv4()
    }

    fn read_transport(&mut self) -> Result<(), Unread> {
        let (frame, at) = (self.frame, self.transport);
        match self.ends.protocol {
            Protocol::TCP => {
                let header = bytes::<20>(frame, at)?;
                let [fin, syn, rst, ack] = [1, 2, 4, 16].map(|flag| header[13] & flag != 0);
                let number = |at: usize| u32::from_be_bytes([0, 1, 2, 3].map(|i| header[at + i]));
                let (sequence, acknowledged) = (number(4), number(8));
                let data = at + usize::from(header[12] >> 4) * 4;
                let has_data = data < self.end;
                self.opens = syn && !ack;
                self.says = match (rst, syn, ack) {
                    (true, ..) => Says {
                        resets: true,
                        number: sequence,
                        other: if ack { acknowledged } else { 0 },
                        ..Says::default()
                    },
                    (_, true, false) => Says {
                        opens: true,
                        number: sequence,
                        has_data,
                        ..Says::default()
                    },
                    (_, true, true) => Says {
                        answers: true,
                        number: sequence.wrapping_add(1),
                        other: acknowledged,
                        ..Says::default()
                    },
                    (_, false, true) => Says {
                        acknowledges: Some(acknowledged),
                        ends: fin,
                        number: acknowledged,
                        other: sequence.wrapping_add(1 + self.end.saturating_sub(data) as u32),
                        has_data,
                        ..Says::default()
                    },
                    (_, false, false) => Says {
                        has_data,
                        ..Says::default()
                    },
                };
                self.least_length = 20;
            }
            Protocol::UDP => {
                bytes::<8>(frame, at)?;
                self.opens = true;
                self.least_length = 8;
            }
            Protocol::SCTP => {
                // The common header and the type of the first chunk, both in the frame: a packet
                // without chunks (RFC 9260 section 3 has none) is translated if its padding can be
                // taken for one.
                let chunk = bytes::<13>(frame, at)?[12];
                self.opens = chunk == 1;
                self.says = Says {
                    opens: self.opens,
                    answers: chunk == 2,
                    resets: chunk == 6,
                    ends: matches!(chunk, 8 | 14),
                    ..Says::default()
                };
                self.least_length = 12;
            }
            _ => return Err(Unread::Foreign),
        }
        if at + self.least_length > self.end {
            return Err(Unread::Truncated);
        }
        self.ends.source.port = word(frame, at)?;
        self.ends.destination.port = word(frame, at + 2)?;
        Ok(())
    }

    /// An error goes the way of a packet that answers the one which it quotes.
    fn read_error(&mut self, is_ipv4: bool) -> Result<(), Unread> {
        let frame = self.frame;
        let kind = bytes::<ICMP_HEADER>(frame, self.transport)?[0];
        let is_error = if is_ipv4 {
            matches!(kind, 3 | 11 | 12)
        } else {
            matches!(kind, 1..=4)
        };
        if !is_error {
            return Err(Unread::Foreign);
        }
        let network = self.transport + ICMP_HEADER;
        let quoted = Network::read(frame, network, is_ipv4)?;
        let protocol = Protocol(quoted.protocol);
        if quoted.form == Form::Later
            || !Protocol::ALL.contains(&protocol)
            || quoted.source != self.ends.destination.ip
        {
            return Err(Unread::Foreign);
        }
        let (source, destination) = (
            word(frame, quoted.transport)?,
            word(frame, quoted.transport + 2)?,
        );
        if quoted.transport + 4 > self.end {
            return Err(Unread::Truncated);
        }
        self.form = Form::Error;
        self.quote = Some(Quote {
            reporter: self.ends.source.ip,
            network,
            transport: quoted.transport,
        });
        self.ends = Ends {
            protocol,
            source: Endpoint {
                ip: quoted.destination,
                port: destination,
            },
            destination: Endpoint {
                ip: quoted.source,
                port: source,
            },
        };
        Ok(())
    }
}

/// Returns whether one host has the address: no group, not the unspecified one, not the loopback's.
fn is_host(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => !matches!(ip.octets()[0], 0 | 127 | 224..),
        IpAddr::V6(ip) => !ip.is_multicast() && !ip.is_unspecified() && !ip.is_loopback(),
    }
}

/// Returns whether the sum over an IPv4 header is what it has to be (RFC 1071).
pub(crate) fn is_intact(header: &[u8]) -> bool {
    let words = header.chunks_exact(2);
    let mut sum: u32 = words
        .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum == 0xffff
}

/// Returns whether an IPv4 header has loose or strict source routing (RFC 791 section 3.1).
fn has_source_route(header: &[u8]) -> bool {
    let mut rest = header.get(20..).unwrap_or_default();
    while let [kind, behind @ ..] = rest {
        let length = match kind {
            0 => return false,
            1 => 1,
            131 | 137 => return true,
            _ => behind
                .first()
                .map_or(1, |length| usize::from(*length).max(1)),
        };
        rest = rest.get(length..).unwrap_or_default();
    }
    false
}

impl Network {
    fn read(frame: &[u8], at: usize, is_ipv4: bool) -> Result<Self, Unread> {
        if is_ipv4 {
            Self::read_v4(frame, at)
        } else {
            Self::read_v6(frame, at)
        }
    }

    /// RFC 791 section 3.1.
    fn read_v4(frame: &[u8], at: usize) -> Result<Self, Unread> {
        let header: [u8; 20] = bytes(frame, at)?;
        let length = usize::from(header[0] & 0x0f) * 4;
        if header[0] >> 4 != 4 || length < 20 {
            return Err(Unread::Foreign);
        }
        let total = word(frame, at + 2)?;
        if total == 0 {
            return Err(Unread::Truncated);
        }
        let fragment = word(frame, at + 6)?;
        let form = match (fragment & 0x1fff, fragment & 0x2000 != 0) {
            (0, false) => Form::Whole,
            (0, true) => Form::First,
            _ => Form::Later,
        };
        Ok(Self {
            source: bytes::<4>(frame, at + 12)?.into(),
            destination: bytes::<4>(frame, at + 16)?.into(),
            protocol: header[9],
            hop_limit: header[8],
            transport: at + length,
            end: at + usize::from(total),
            form,
            identification: word(frame, at + 4)?.into(),
        })
    }

    /// RFC 8200 section 3.
    fn read_v6(frame: &[u8], at: usize) -> Result<Self, Unread> {
        let header: [u8; 40] = bytes(frame, at)?;
        if header[0] >> 4 != 6 {
            return Err(Unread::Foreign);
        }
        let length = word(frame, at + 4)?;
        if length == 0 {
            return Err(Unread::Truncated);
        }
        let transport = at + 40;
        let Walk {
            protocol,
            end,
            form,
            identification,
        } = extensions::walk(frame, transport, header[6])?;
        Ok(Self {
            source: bytes::<16>(frame, at + 8)?.into(),
            destination: bytes::<16>(frame, at + 24)?.into(),
            protocol,
            hop_limit: header[7],
            transport: end,
            end: transport + usize::from(length),
            form,
            identification,
        })
    }
}
