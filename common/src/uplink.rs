//! An interface that has the XDP program.

use bytemuck::{Pod, Zeroable};

/// The XDP program's knowledge of an interface.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
pub struct Uplink {
    /// Its link address: frames to another one are not for us.
    pub address: [u8; 6],
    /// Zeros.
    pub padding: [u8; 2],
}

impl Uplink {
    /// An interface with this link address.
    #[must_use]
    pub const fn new(address: [u8; 6]) -> Self {
        Self {
            address,
            padding: [0; 2],
        }
    }
}
