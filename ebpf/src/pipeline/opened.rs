//! Outcome of opening an envelope.

/// Outcome of opening an envelope.
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
    /// As [`Self::ForAll`], from a backend's node that has handed the packet on.
    HandedOnForAll,
    /// As [`Self::ForOtherNode`], likewise.
    HandedOnForOtherNode,
}

impl Opened {
    /// The one of that number.
    #[inline(always)]
    pub(crate) const fn of_number(number: u32) -> Self {
        match number {
            1 => Self::ForAll,
            2 => Self::ForOtherNode,
            3 => Self::Dropped,
            4 => Self::HandedOnForAll,
            5 => Self::HandedOnForOtherNode,
            _ => Self::Not,
        }
    }

    /// The same, of an envelope in which the packet was handed on.
    #[inline(always)]
    pub(crate) const fn handed_on(self) -> Self {
        match self {
            Self::ForAll => Self::HandedOnForAll,
            Self::ForOtherNode => Self::HandedOnForOtherNode,
            _ => self,
        }
    }

    /// Returns whether a backend's node has handed the packet on.
    #[inline(always)]
    pub(crate) const fn is_handed_on(self) -> bool {
        matches!(self, Self::HandedOnForAll | Self::HandedOnForOtherNode)
    }

    /// Returns whether the packet is for a NodePort of another node.
    #[inline(always)]
    pub(crate) const fn is_for_other_node(self) -> bool {
        matches!(self, Self::ForOtherNode | Self::HandedOnForOtherNode)
    }
}
