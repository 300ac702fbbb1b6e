//! Writing transport headers.

use shunt_common::{Folded, Tuple};

use crate::{
    ctx::access::{Access, AccessError},
    packet::{
        parsed::Packet,
        segment::{Ports, Segment, TcpHeader, UdpHeader},
    },
    rewrite::{
        checksum::adjust_segment,
        network::{HeaderMut as _, Rewrite},
    },
};

/// A transport header that can be written.
pub(crate) trait SegmentMut: Segment {
    /// The ports.
    fn ports_mut(&mut self) -> &mut Ports;
}

impl SegmentMut for TcpHeader {
    #[inline(always)]
    fn ports_mut(&mut self) -> &mut Ports {
        &mut self.ports
    }
}

impl SegmentMut for UdpHeader {
    #[inline(always)]
    fn ports_mut(&mut self) -> &mut Ports {
        &mut self.ports
    }
}

/// Gives a TCP segment or a UDP datagram the tuple `new`.
#[inline(always)]
pub(crate) fn rewrite_segment<F: Rewrite, T: SegmentMut>(
    context: &impl Access,
    packet: &Packet<F>,
    new: &Tuple<F>,
) -> Result<(), AccessError> {
    let old = &packet.tuple;
    let addresses = old.address_difference(new).fold();
    let ports = old.port_difference(new).fold();
    let places = (packet.network.get(), packet.transport.get());
    write_segment::<F, T>(context, places, new, addresses, ports)
}

/// As [`rewrite_segment`], of a packet with its network and its transport header at these places,
/// whose addresses and ports change by so much.
#[inline(always)]
pub(crate) fn write_segment<F: Rewrite, T: SegmentMut>(
    context: &impl Access,
    (network, offset): (usize, usize),
    new: &Tuple<F>,
    addresses: Folded,
    ports: Folded,
) -> Result<(), AccessError> {
    context
        .at_mut::<F::Header>(network)?
        .set_addresses(new, addresses);
    let segment = context.at_mut::<T>(offset)?;
    *segment.ports_mut() = Ports::of(new);
    let was = segment.checksum();
    adjust_segment::<F, T>(context, offset, was, addresses, ports)
}

/// Writes the ports of `new` into the transport header at `transport`.
#[inline(always)]
pub(crate) fn write_ports<F: Rewrite>(
    context: &impl Access,
    transport: usize,
    new: &Tuple<F>,
) -> Result<(), AccessError> {
    *context.at_mut::<Ports>(transport)? = Ports::of(new);
    Ok(())
}
