//! SCTP's checksum, a CRC.

use shunt_common::{Tuple, crc32c};

use crate::{
    ctx::access::{Access, AccessError},
    packet::{
        parsed::{Form, Packet},
        transport::SCTP_CHECKSUM_OFFSET,
    },
    rewrite::{
        network::{Rewrite, write_addresses},
        transport::write_ports,
    },
};

/// Gives an SCTP packet the tuple `new`.
///
/// The CRC covers ports, but no addresses. It is 0 while it is still to be filled in, by the
/// interface that the packet leaves by, and then stays so.
#[inline(always)]
pub(crate) fn rewrite_sctp<F: Rewrite>(
    context: &impl Access,
    packet: &Packet<F>,
    new: &Tuple<F>,
) -> Result<(), AccessError> {
    let old = &packet.tuple;
    if !old.has_ports_of(new) {
        // The length is needed, which a fragment does not have.
        let Form::Whole = packet.form else {
            return Err(AccessError::Refused);
        };
        let difference = old.port_word() ^ new.port_word();
        let difference = crc_difference(difference, packet.end - packet.transport.get() as u32);
        write_ports(context, packet.transport.get(), new)?;
        let checksum = context.at_mut::<u32>(packet.transport.get() + SCTP_CHECKSUM_OFFSET)?;
        let mut change = old.port_difference(new);
        if *checksum != 0 {
            change = change.replace(*checksum, *checksum ^ difference);
            *checksum ^= difference;
        }
        context.adjust_frame_sum(change.fold());
    }
    write_addresses(context, packet.network.get(), old, new, None)
}

/// [`crc32c::difference`] as a BPF subprogram, for its loops are long.
#[inline(never)]
#[unsafe(no_mangle)]
pub(crate) extern "C" fn crc_difference(difference: u32, length: u32) -> u32 {
    crc32c::difference(difference, length)
}
