//! The contents of a network header.

use shunt_common::Family;

use crate::{ctx::access::Access, packet::error::ParseError};

/// The contents of a network header.
pub(crate) struct Network<'a, F: Family> {
    /// In the header.
    pub source: &'a F::Address,
    pub destination: &'a F::Address,
    /// The protocol of what follows the header.
    pub protocol: u8,
    /// Offset of that.
    pub transport: usize,
    /// Offset of the packet's end: what the frame has behind it is padding.
    pub end: usize,
    /// Part of its datagram that the packet is.
    pub part: Part,
    /// Datagram that it is a part of, if it is one.
    pub fragment: Fragment,
}

/// Part of a datagram that a packet is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// All of it.
    Whole,
    /// Its begin, with the ports.
    First,
    /// Another part of it, without ports.
    Later,
}

/// Datagram of a fragment; zeros if it is none.
#[derive(Clone, Copy)]
pub(crate) struct Fragment {
    /// As it stands in the packet.
    pub identification: u32,
    /// Further parts of its key, see [`shunt_common::FragmentKey::protocol`].
    pub protocol: u32,
}

impl Part {
    /// Returns the part for a packet that is, or is not, the begin of a datagram, or its end.
    #[inline(always)]
    pub(crate) const fn of(is_first: bool, is_last: bool) -> Self {
        match (is_first, is_last) {
            (true, true) => Self::Whole,
            (true, false) => Self::First,
            (false, _) => Self::Later,
        }
    }
}

/// The end of a packet whose length does not fit into its header: the kernel has put it together
/// of segments and takes it apart again. Of any other packet it is an error.
#[inline(always)]
pub(crate) fn end_beyond_header(context: &impl Access) -> Result<usize, ParseError> {
    if context.segment_size() == 0 {
        return Err(ParseError::Truncated);
    }
    Ok(context.length() as usize)
}
