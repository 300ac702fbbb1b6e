//! Places in a frame.

/// Offset of a header in the frame, remembered in a structure.
///
/// The verifier forgets the bounds of what is copied there; they are stated again at each use.
#[derive(Clone, Copy)]
pub(crate) struct Offset(u16);

impl Offset {
    /// All headers that are read begin below this: twice the longest network header, with an
    /// ICMP error's own between, in the longer of the families.
    const BOUND: u16 = 0x3ff;

    #[inline(always)]
    pub(crate) const fn new(offset: usize) -> Self {
        Self(offset as u16)
    }

    #[inline(always)]
    pub(crate) fn get(self) -> usize {
        usize::from(self.0 & Self::BOUND)
    }
}

/// Extent of a packet's headers.
#[derive(Clone, Copy)]
pub(crate) struct Extent {
    /// Offset of the network header.
    pub network: usize,
    /// Offset of what follows the transport header.
    pub payload: usize,
}
