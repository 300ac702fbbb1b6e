//! The maximum segment size (MSS) that a TCP peer announces when a connection begins, RFC 9293 section
//! 3.7.1.

use shunt_common::Sum;

use crate::{
    ctx::access::{Access, AccessError},
    packet::{
        family::Family,
        segment::{Segment as _, TcpHeader},
    },
    rewrite::checksum::adjust_segment,
};

/// The kinds of options that matter, RFC 9293 section 3.1.
const END: u8 = 0;
const NOTHING: u8 = 1;
const MSS: u8 = 2;

/// Length of the option.
const MSS_LENGTH: usize = 4;

/// Number of options that are looked through: each host announces it first, or nearly so.
const OPTIONS: usize = 8;

/// The longest header with its options.
const LONGEST: usize = 60;

/// Lowers what the segment with its header at `transport`, of a packet that ends at `end`, announces by `by`
/// bytes, if it announces so much. `Err` leaves a packet that must be dropped.
#[inline(always)]
pub(crate) fn lower<F: Family>(
    context: &impl Access,
    transport: usize,
    end: usize,
    by: u16,
) -> Result<(), AccessError> {
    let header = context.at::<TcpHeader>(transport)?;
    let (length, was) = (header.length().min(LONGEST), header.checksum());
    let mut option = size_of::<TcpHeader>();
    for _ in 0..OPTIONS {
        if option + MSS_LENGTH > length {
            return Ok(());
        }
        // A fragment need not have all of its header, and what the frame has behind it has no meaning.
        if transport + option + MSS_LENGTH > end {
            return Err(AccessError::OutOfBounds);
        }
        let [kind, its_length, high, low] = *context.at::<[u8; MSS_LENGTH]>(transport + option)?;
        match (kind, its_length) {
            (NOTHING, _) => option += 1,
            // The end, or no length that an option can have.
            (END, _) | (_, 0 | 1) => return Ok(()),
            (MSS, 4) => {
                let announced = u16::from_be_bytes([high, low]);
                if announced <= by {
                    return Ok(());
                }
                let lowered = (announced - by).to_be_bytes();
                let place = option + 2;
                *context.at_mut::<[u8; 2]>(transport + place)? = lowered;
                // A word of the checksum begins at an even place.
                let word = |[high, low]: [u8; 2]| match place % 2 {
                    0 => u32::from(u16::from_ne_bytes([high, low])),
                    _ => u32::from(u16::from_ne_bytes([low, high])),
                };
                let change = Sum::default().replace(word([high, low]), word(lowered));
                let none = Sum::default().fold();
                return adjust_segment::<F, TcpHeader>(
                    context,
                    transport,
                    was,
                    none,
                    change.fold(),
                );
            }
            _ => option += usize::from(its_length),
        }
    }
    Ok(())
}
