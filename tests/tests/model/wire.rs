//! What the bytes of a frame say, as the RFCs and the documentation of the programs' parser have
//! it. Headers are within the packet: what the frame has behind its end is padding.

use std::net::IpAddr;

use super::{
    cluster::{Endpoint, Protocol},
    extensions::{self, Walk},
    flows::Ends,
};

/// Where the network header begins.
pub(crate) const ETHERNET: usize = 14;
/// The header of an ICMP error, in both families.
pub(crate) const ICMP_HEADER: usize = 8;

/// Why a frame is passed as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unread {
    /// It is something that is not translated.
    Foreign,
    /// It is shorter than its headers say.
    Truncated,
    /// It has more extension headers than are walked.
    TooManyHeaders,
}

/// What a packet is to its flow.
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

/// Where an error quotes a packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quote {
    pub reporter: IpAddr,
    pub network: usize,
    pub transport: usize,
}

/// A frame that may concern a flow.
#[derive(Debug, Clone)]
pub(crate) struct Packet<'a> {
    pub frame: &'a [u8],
    pub form: Form,
    /// The ends; of an error those of a packet that goes its way, of a later fragment without
    /// ports.
    pub ends: Ends,
    /// Whether it may be the first of a flow.
    pub opens: bool,
    /// Whether it ends what its sender has to say.
    pub closes: bool,
    /// Whether it ends the flow.
    pub resets: bool,
    pub hop_limit: u8,
    /// For another station.
    pub overheard: bool,
    /// The datagram that it is a part of, if it is a fragment.
    pub datagram: Datagram,
    /// Offsets of the transport header, and of the packet's end.
    pub transport: usize,
    pub end: usize,
    /// How long the transport header is without options.
    pub least_length: usize,
    pub quote: Option<Quote>,
}

/// What a network header says.
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
        let to_another = frame[..6] != [0; 6] && frame[0] & 1 == 0;
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
            closes: false,
            resets: false,
            hop_limit: network.hop_limit,
            overheard: to_another,
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
        Ok(packet)
    }

    /// What it is counted as once it is translated, if it is `usually` a flow's own.
    pub(crate) const fn counts_as(&self, usually: &'static str) -> &'static str {
        match self.form {
            Form::Whole | Form::First => usually,
            Form::Later => "fragment",
            Form::Error => "icmp_error",
        }
    }

    /// Whether it is IPv4.
    pub(crate) const fn is_ipv4(&self) -> bool {
        self.ends.source.ip.is_ipv4()
    }

    fn read_transport(&mut self) -> Result<(), Unread> {
        let (frame, at) = (self.frame, self.transport);
        match self.ends.protocol {
            Protocol::TCP => {
                let [flags] = bytes::<20>(frame, at).map(|header| [header[13]])?;
                self.closes = flags & 0x01 != 0;
                self.resets = flags & 0x04 != 0;
                self.opens = flags & 0x12 == 0x02;
                self.least_length = 20;
            }
            Protocol::UDP => {
                bytes::<8>(frame, at)?;
                self.opens = true;
                self.least_length = 8;
            }
            Protocol::SCTP => {
                // The common header, and that of the first chunk, of which all is in the frame: a
                // packet without chunks (RFC 9260 section 3 has none) is translated if its padding
                // can be taken for one.
                let chunk = bytes::<16>(frame, at)?[12];
                self.opens = chunk == 1;
                self.resets = chunk == 6;
                self.closes = matches!(chunk, 8 | 14);
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
