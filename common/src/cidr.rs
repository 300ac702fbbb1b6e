//! Address ranges that are fixed while the programs are loaded.

use bytemuck::{Pod, Zeroable};

use crate::{Family, V4, V6};

/// The largest number of ranges a family.
const CAPACITY: usize = 4;

/// An address range.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr<F: Family> {
    /// Any address of the range, network order.
    pub address: F::Address,
    /// The bits that an address of the range shares with it, network order.
    pub mask: F::Address,
}

/// The ranges that this node's pods take their addresses from: constants of the loaded programs.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodCidrs<F: Family> {
    /// Number of `cidrs` in use.
    pub count: u32,
    /// The ranges.
    pub cidrs: [Cidr<F>; CAPACITY],
}

const _: () = assert!(size_of::<PodCidrs<V4>>() == 4 + 8 * CAPACITY);
const _: () = assert!(size_of::<PodCidrs<V6>>() == 4 + 32 * CAPACITY);

// SAFETY: `repr(C)`, every field is `Zeroable`.
unsafe impl<F: Family> Zeroable for PodCidrs<F> {}
// SAFETY: `repr(C)`, every field is made of words, and the assertions above rule out padding.
unsafe impl<F: Family> Pod for PodCidrs<F> {}
// SAFETY: two words or two arrays of words.
unsafe impl<F: Family> Zeroable for Cidr<F> {}
// SAFETY: two `Pod` fields of one type leave no padding.
unsafe impl<F: Family> Pod for Cidr<F> {}

impl<F: Family> PodCidrs<F> {
    /// The largest number of ranges a family.
    pub const CAPACITY: usize = CAPACITY;

    /// No ranges.
    #[must_use]
    pub const fn none(zero: F::Address) -> Self {
        Self {
            count: 0,
            cidrs: [Cidr {
                address: zero,
                mask: zero,
            }; CAPACITY],
        }
    }
}
