//! Parsing: reads a packet's headers.

use crate::packet::{
    error::ParseError,
    extensions::WalkExtensions,
    family::Family,
    inner,
    link::Link,
    network::Part,
    offset::Offset,
    parsed::{Form, Packet},
    transport::Transport,
};

/// Number of bytes that have to be in the linear part: the headers of an ICMP error and of its inner packet, in the
/// longer of the families, with as many extension headers as are walked.
pub(crate) const LONGEST_HEADERS: u32 = 14 + 2 * (40 + 256 + 20);

/// Reads the packet into `packet`. If its headers are not in the linear part, they are pulled there
/// and it is read again.
#[inline(always)]
pub(crate) fn parse<F: Family, C: WalkExtensions>(
    context: &C,
    link: Link,
    packet: &mut Packet<F>,
) -> Result<(), ParseError> {
    let mut is_pulled = false;
    loop {
        match read(context, link, packet) {
            Err(ParseError::Truncated) if !is_pulled && context.pull(LONGEST_HEADERS) => {
                is_pulled = true;
            }
            result => break result,
        }
    }
}

#[inline(always)]
fn read<F: Family, C: WalkExtensions>(
    context: &C,
    link: Link,
    packet: &mut Packet<F>,
) -> Result<(), ParseError> {
    read_at(context, link, link.header_length(), packet)
}

/// As [`parse`], of a packet whose network header begins at `begin` and that is all there.
#[inline(always)]
pub(crate) fn read_at<F: Family, C: WalkExtensions>(
    context: &C,
    link: Link,
    begin: usize,
    packet: &mut Packet<F>,
) -> Result<(), ParseError> {
    let network = F::read(context, begin)?;
    // What the frame has behind the packet's end is no header either.
    if network.end > context.length() as usize || network.transport > network.end {
        return Err(ParseError::Truncated);
    }
    packet.link = link;
    packet.interface = context.interface();
    packet.network = Offset::new(begin);
    packet.transport = Offset::new(network.transport);
    packet.end = network.end as u32;
    packet.fragment = network.fragment;
    packet.options = F::options(context, begin, network.transport);
    packet.is_intact = F::is_intact(context, begin, network.transport);
    packet.form = match network.part {
        Part::Whole if network.protocol == F::ICMP => {
            return inner::read(context, &network, packet);
        }
        Part::Whole => Form::Whole,
        Part::First => Form::FirstFragment,
        Part::Later => Form::LaterFragment,
    };
    packet.tuple.source = *network.source;
    packet.tuple.destination = *network.destination;
    packet.protocol = network.protocol;
    if packet.form == Form::LaterFragment {
        return Ok(());
    }
    let transport = Transport::read(context, network.protocol, network.transport)?;
    // What the frame has behind the packet's end is not to be read as ports.
    if network.transport + transport.least_length > network.end {
        return Err(ParseError::Truncated);
    }
    packet.tuple.source_port = transport.ports.source;
    packet.tuple.destination_port = transport.ports.destination;
    packet.may_be_first = transport.may_be_first;
    let payload = network.transport + transport.length;
    packet.signal = if payload < network.end {
        transport
            .signal
            .with_payload((network.end - payload) as u32)
    } else {
        transport.signal
    };
    packet.least_length = transport.least_length as u16;
    packet.payload = Offset::new(payload);
    Ok(())
}
