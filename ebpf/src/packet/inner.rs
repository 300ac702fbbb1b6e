//! ICMP errors: each holds an *inner packet*, the begin of the one that it is about.

use crate::packet::{
    error::ParseError,
    extensions::WalkExtensions,
    family::Family,
    network::{Network, Part},
    offset::Offset,
    parsed::{Form, Packet},
    segment::Ports,
    transport,
};

/// The header of an ICMP error, the same in both families; network order.
#[repr(C)]
pub(crate) struct IcmpHeader {
    pub kind: u8,
    pub code: u8,
    pub checksum: u16,
    /// The MTU of what is too long, else 0.
    pub detail: u32,
}

const _: () = assert!(size_of::<IcmpHeader>() == 8, "RFC 792, RFC 4443: two words");

/// Reads the ICMP error that follows the network header of `packet`.
#[inline(always)]
pub(crate) fn read<F: Family, C: WalkExtensions>(
    context: &C,
    network: &Network<'_, F>,
    packet: &mut Packet<F>,
) -> Result<(), ParseError> {
    let icmp = context.at::<IcmpHeader>(network.transport)?;
    if !F::is_error(icmp.kind) {
        return Err(ParseError::Foreign);
    }
    let offset = network.transport + size_of::<IcmpHeader>();
    let inner = F::read(context, offset)?;
    if inner.part == Part::Later
        || !transport::is_translated(inner.protocol)
        || inner.source != network.destination
    {
        return Err(ParseError::Foreign);
    }
    let ports = context.at::<Ports>(inner.transport)?;
    if inner.transport + size_of::<Ports>() > network.end {
        return Err(ParseError::Truncated);
    }
    packet.form = Form::Error;
    packet.inner.reporter = *network.source;
    packet.inner.network = Offset::new(offset);
    packet.inner.transport = Offset::new(inner.transport);
    packet.tuple.source = *inner.destination;
    packet.tuple.destination = *inner.source;
    packet.tuple.source_port = ports.destination;
    packet.tuple.destination_port = ports.source;
    packet.protocol = inner.protocol;
    packet.least_length = size_of::<IcmpHeader>() as u16;
    packet.payload = Offset::new(offset);
    Ok(())
}
