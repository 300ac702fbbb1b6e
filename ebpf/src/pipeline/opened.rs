//! What becomes of an envelope.

/// What became of an envelope.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opened {
    /// It is none for us.
    Not,
    /// It is open, with a packet for a frontend that all nodes have.
    ForAll,
    /// It is open, with a packet for a NodePort of another node.
    ForOtherNode,
    /// It was dropped with what was in it.
    Dropped,
}

impl Opened {
    /// The one of that number.
    #[inline(always)]
    pub(crate) const fn of_number(number: u32) -> Self {
        match number {
            1 => Self::ForAll,
            2 => Self::ForOtherNode,
            3 => Self::Dropped,
            _ => Self::Not,
        }
    }
}
