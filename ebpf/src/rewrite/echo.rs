//! Turning an echo request (RFC 792, RFC 4443 section 4.1) into its answer.

use shunt_common::Sum;

use crate::{
    ctx::access::{Access, AccessError},
    packet::{family::Header as _, inner::IcmpHeader, parsed::Packet},
    rewrite::{
        checksum::adjust_frame_sum,
        network::{HeaderMut as _, Rewrite},
    },
};

/// The hop limit of an answer, as Linux has it.
const HOPS: u8 = 64;

/// Makes the packet, an echo request, its own answer: from whom it was for, to whom it is from. Its
/// identifier, its number and its payload stay, as do its options. `Err` leaves a packet that must be
/// dropped.
#[inline(always)]
pub(crate) fn answer<F: Rewrite>(
    context: &impl Access,
    packet: &Packet<F>,
) -> Result<(), AccessError> {
    // Checksums do not see that the addresses change places.
    let header = context.at_mut::<F::Header>(packet.network.get())?;
    header.set_source(packet.tuple.destination);
    header.set_destination(packet.tuple.source);
    let hops = |count: u8| u32::from(F::ONE_HOP) * u32::from(count);
    let change = Sum::default()
        .replace(hops(header.hop_limit()), hops(HOPS))
        .fold();
    header.set_hop_limit(HOPS);
    header.adjust_checksum(change);
    adjust_frame_sum::<F>(context, change);

    let icmp = packet.transport.get();
    let first = |kind: u8| u32::from(u16::from_ne_bytes([kind, 0]));
    let change = Sum::default()
        .replace(first(F::ECHO), first(F::ECHO_REPLY))
        .fold();
    context.at_mut::<IcmpHeader>(icmp)?.kind = F::ECHO_REPLY;
    context.adjust_checksum(
        icmp + core::mem::offset_of!(IcmpHeader, checksum),
        change,
        false,
    )
}
