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
    /// How much of a datagram it is.
    pub part: Part,
    /// Which datagram, if it is a part of one.
    pub fragment: Fragment,
}

/// How much of a datagram a packet is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// All of it.
    Whole,
    /// Its begin, with the ports.
    First,
    /// Another part of it, without ports.
    Later,
}

/// Which datagram a fragment is of; zeros if it is none.
#[derive(Clone, Copy)]
pub(crate) struct Fragment {
    /// As it stands in the packet.
    pub identification: u32,
    /// What else tells it from others, see [`shunt_common::FragmentKey::protocol`].
    pub protocol: u32,
}

impl Part {
    /// What a packet is that is, or is not, the begin of a datagram, or its end.
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
