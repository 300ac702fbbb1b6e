//! The ways that the kernel's routes give to addresses elsewhere.

use bytemuck::{Pod, Zeroable};

use crate::{Family, V4, V6};

/// The way to all addresses with a prefix.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Path<F: Family> {
    /// The source address that the kernel prefers on it, network order; unspecified: [`crate::NodeIps::snat`].
    pub source: F::Address,
    /// The MTU that its route has, in bytes; 0: none.
    pub mtu: u32,
}

const _: () = assert!(size_of::<Path<V4>>() == 4 + 4);
const _: () = assert!(size_of::<Path<V6>>() == 16 + 4);

// SAFETY: `repr(C)`, every field is `Zeroable`.
unsafe impl<F: Family> Zeroable for Path<F> {}
// SAFETY: `repr(C)`, an address and a word leave no padding.
unsafe impl<F: Family> Pod for Path<F> {}
