//! Parsing: a packet is read once into a small tuple that everything else uses.

use aya_ebpf::programs::TcContext;
use shunt_common::{Counter, Tuple};

use crate::{
    counters::count,
    family::{Family, Fragment, Part},
    frame::{Extent, Offset, Unreadable},
    quote::{self, Quote},
    transport::Transport,
};

/// What the network header is preceded by.
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// An Ethernet header without tags; the kernel keeps a tag beside the packet.
    Ethernet,
    /// Nothing: tunnels, tun, WireGuard.
    None,
}

impl Link {
    /// Where the network header begins.
    #[inline(always)]
    pub const fn header_length(self) -> usize {
        match self {
            Self::Ethernet => 14,
            Self::None => 0,
        }
    }
}

/// A packet that concerns a connection of a protocol that we translate.
///
/// No field is an enum with fields of its own: of one that leaves bytes undefined, the compiler
/// writes whatever register is at hand, and the verifier refuses a pointer there.
#[repr(C)]
pub struct Packet<F: shunt_common::Family> {
    /// The addresses and ports as they came; 0 for the ports of a later fragment. Of an ICMP
    /// error those of a packet that goes its way: the quoted one's, reversed.
    pub tuple: Tuple<F>,
    /// Which datagram it is a part of, if it is one.
    pub fragment: Fragment,
    /// Where the quoted packet is, if it is an ICMP error.
    pub quote: Quote<F>,
    /// Offset of the packet's end.
    pub end: u32,
    /// Where the network header begins.
    pub network: Offset,
    /// Where what follows the network header begins.
    pub transport: Offset,
    /// Where what follows the transport header begins.
    pub payload: Offset,
    /// How long the transport header is without options.
    pub least_length: u16,
    /// What it says to connection tracking: flags of [`shunt_common::ConntrackEntry::seen`]. 0 is
    /// nothing: it is not of the connection.
    pub says: u16,
    pub link: Link,
    pub form: Form,
    /// The transport protocol; that of the quoted packet if this is an ICMP error.
    pub protocol: u8,
    /// Whether it may be the first of a flow: any UDP packet, a TCP SYN, an SCTP INIT.
    pub opens: bool,
}

/// What a packet is to its connection.
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// One of its packets, whole.
    Whole,
    /// The begin of one, with the ports.
    FirstFragment,
    /// Another part of one, without ports.
    LaterFragment,
    /// An ICMP error about one.
    Error,
}

impl<F: Family> Packet<F> {
    /// No packet yet: where one is read into.
    #[inline(always)]
    pub const fn none() -> Self {
        // SAFETY: numbers, and enums that have a variant 0.
        unsafe { core::mem::zeroed() }
    }

    /// Reads the packet into this one. Gives whether it is not to be passed untouched; what would
    /// have been ours but for its form is counted.
    #[inline(always)]
    pub fn parse(&mut self, context: &TcContext, link: Link) -> bool {
        F::parse(context, link, self)
    }

    /// What [`Self::parse`] does. A packet whose headers are not in its linear part has them pulled
    /// there and is read again.
    #[inline(always)]
    pub fn parse_here(&mut self, context: &TcContext, link: Link) -> bool {
        let mut is_pulled = false;
        let read = loop {
            match self.read(context, link) {
                Err(Unreadable::Truncated) if !is_pulled && pull(context) => is_pulled = true,
                read => break read,
            }
        };
        match read {
            Ok(()) => return true,
            Err(Unreadable::Truncated) => count(Counter::PassTruncated),
            Err(Unreadable::TooManyHeaders) => count(Counter::PassHeaders),
            Err(Unreadable::Foreign) => {}
        }
        false
    }

    /// Whether this is an ICMP error about a packet of the connection.
    #[inline(always)]
    pub const fn is_error(&self) -> bool {
        matches!(self.form, Form::Error)
    }

    /// How much of it is headers.
    #[inline(always)]
    pub fn extent(&self) -> Extent {
        Extent {
            network: self.network.get(),
            payload: self.payload.get(),
        }
    }

    /// What it is counted as once it is translated: `usually` if it is a connection's own.
    #[inline(always)]
    pub const fn counts_as(&self, usually: Counter) -> Counter {
        match self.form {
            Form::Whole | Form::FirstFragment => usually,
            Form::LaterFragment => Counter::Fragment,
            Form::Error => Counter::IcmpError,
        }
    }

    /// Whether its sender may be sent an ICMP error about it: not about an error, and not about a
    /// part of a datagram without its begin (RFC 1122 section 3.2.2, RFC 4443 section 2.4(e)).
    #[inline(always)]
    pub fn may_be_answered(&self) -> bool {
        !matches!(self.form, Form::Error | Form::LaterFragment) && F::is_unicast(&self.tuple.source)
    }

    #[inline(always)]
    fn read(&mut self, context: &TcContext, link: Link) -> Result<(), Unreadable> {
        let network = F::read(context, link.header_length())?;
        // What the frame has behind the packet's end is no header either.
        if network.end > context.len() as usize || network.transport > network.end {
            return Err(Unreadable::Truncated);
        }
        self.link = link;
        self.network = Offset::new(link.header_length());
        self.transport = Offset::new(network.transport);
        self.end = network.end as u32;
        self.fragment = network.fragment;
        self.form = match network.part {
            Part::Whole if network.protocol == F::ICMP => {
                return quote::read(context, &network, self);
            }
            Part::Whole => Form::Whole,
            Part::First => Form::FirstFragment,
            Part::Later => Form::LaterFragment,
        };
        self.tuple.source = *network.source;
        self.tuple.destination = *network.destination;
        self.protocol = network.protocol;
        if self.form == Form::LaterFragment {
            return Ok(());
        }
        let transport = Transport::read(context, network.protocol, network.transport)?;
        // What the frame has behind the packet's end is not to be read as ports.
        if network.transport + transport.least_length > network.end {
            return Err(Unreadable::Truncated);
        }
        self.tuple.source_port = transport.ports.source;
        self.tuple.destination_port = transport.ports.destination;
        self.opens = transport.opens;
        self.says = transport.says;
        self.least_length = transport.least_length as u16;
        self.payload = Offset::new(network.transport + transport.length);
        Ok(())
    }
}

/// Has the headers put into the linear part; gives whether there are more of them there now.
#[inline(always)]
fn pull(context: &TcContext) -> bool {
    let linear = context.data_end() - context.data();
    let length = context.len();
    linear < length as usize && context.pull_data(length.min(LONGEST_HEADERS)).is_ok()
}

/// What has to be in the linear part: the headers of an ICMP error and of the packet that it
/// quotes, in the longer of the families, with as many extension headers as are walked.
const LONGEST_HEADERS: u32 = 14 + 2 * (40 + 256 + 20);
