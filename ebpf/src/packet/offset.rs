//! Places in a frame.

/// Where a header begins in the frame, remembered in a structure.
///
/// The verifier forgets the bounds of what is copied there; they are said again at each use.
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

/// How much of a packet is headers.
#[derive(Clone, Copy)]
pub(crate) struct Extent {
    /// Where the network header begins.
    pub network: usize,
    /// Where what follows the transport header begins.
    pub payload: usize,
}
