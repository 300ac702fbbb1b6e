//! Congestion marks of a packet when it comes out of an envelope: RFC 6040 section 4.2.

use crate::{
    ctx::access::{Access, AccessError},
    packet::family::Header as _,
    rewrite::{
        checksum::adjust_frame_sum,
        network::{HeaderMut as _, Rewrite},
    },
};

/// The values of the two bits, RFC 3168 section 5: a transport that would not heed a mark, two for one that
/// would, and the mark.
const NOT_CAPABLE: u32 = 0;
const CAPABLE_1: u32 = 1;
const CAPABLE_0: u32 = 2;
const EXPERIENCED: u32 = 3;

/// Hands the mark of the envelope at `outer` on to the packet at `inner`. Returns whether that goes on: one whose
/// sender would heed nothing else is to be dropped.
#[inline(always)]
pub(crate) fn hand_on<F: Rewrite>(context: &impl Access, outer: usize, inner: usize) -> bool {
    let marks = congestion::<F>(context, outer)
        .and_then(|outer| Ok((outer, congestion::<F>(context, inner)?)));
    let Ok((outer, was)) = marks else {
        return true;
    };
    let Some(mark) = combined(was, outer) else {
        return false;
    };
    if mark != was
        && let Ok(header) = context.at_mut::<F::Header>(inner)
    {
        let change = header.set_congestion(mark);
        adjust_frame_sum::<F>(context, change);
    }
    true
}

#[inline(always)]
fn congestion<F: Rewrite>(context: &impl Access, network: usize) -> Result<u32, AccessError> {
    Ok(context.at::<F::Header>(network)?.congestion())
}

/// Returns the packet's mark then; `None`: it is dropped.
#[inline(always)]
const fn combined(inner: u32, outer: u32) -> Option<u32> {
    match (inner, outer) {
        (NOT_CAPABLE, EXPERIENCED) => None,
        (NOT_CAPABLE, _) => Some(NOT_CAPABLE),
        (_, EXPERIENCED) => Some(EXPERIENCED),
        (CAPABLE_0, CAPABLE_1) => Some(CAPABLE_1),
        (inner, _) => Some(inner),
    }
}
