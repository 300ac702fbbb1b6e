//! Checksums that follow a change of what they cover.

use shunt_common::Folded;

use crate::{
    ctx::access::{Access, AccessError, ChecksumField},
    packet::{family::Family, segment::Segment},
};

/// Has the checksum of the segment at `offset`, which was `was`, follow a change of the addresses
/// and one of the ports, which have been written. `Err` leaves a packet that must be dropped.
#[inline(always)]
pub(crate) fn adjust_segment<F: Family, T: Segment>(
    context: &impl Access,
    offset: usize,
    was: u16,
    addresses: Folded,
    ports: Folded,
) -> Result<(), AccessError> {
    // 0 stays 0 (RFC 768). The kernel's helper would leave the sum over the frame alone too, which
    // the ports are in.
    if T::ZERO_IS_NONE && was == 0 {
        context.adjust_frame_sum(ports);
        adjust_frame_sum::<F>(context, addresses);
        return Ok(());
    }
    let checksum = offset + T::CHECKSUM_OFFSET;
    let field =
        context.adjust_segment_checksum(checksum, was, addresses, ports, T::ZERO_IS_NONE)?;
    if field == ChecksumField::Whole {
        adjust_frame_sum::<F>(context, addresses);
    }
    Ok(())
}

/// Notifies the kernel that the network header has changed. Its helper takes it that the header has a
/// checksum of its own, so that the frame's sum changes with the transport's field alone
/// (inet_proto_csum_replace_by_diff() in net/core/utils.c).
#[inline(always)]
pub(crate) fn adjust_frame_sum<F: Family>(context: &impl Access, change: Folded) {
    if !F::HAS_HEADER_CHECKSUM {
        context.adjust_frame_sum(change);
    }
}
