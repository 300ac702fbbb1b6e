//! This node's own addresses.

use bytemuck::{Pod, Zeroable};

use crate::{Family, V4, V6};

/// The largest number of addresses a family.
const CAPACITY: usize = 8;

/// This node's addresses of one family, network order. A place that holds 0 is free; an address
/// stays at its place for as long as it is the node's, so that a packet which reads while others
/// change finds it.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeIps<F: Family> {
    /// The address that connections from outside to a backend elsewhere go on from; 0: none.
    pub snat: F::Address,
    /// All of them.
    pub own: [F::Address; CAPACITY],
}

const _: () = assert!(size_of::<NodeIps<V4>>() == 4 + 4 * CAPACITY);
const _: () = assert!(size_of::<NodeIps<V6>>() == 16 + 16 * CAPACITY);

// SAFETY: `repr(C)`, every field is `Zeroable`.
unsafe impl<F: Family> Zeroable for NodeIps<F> {}
// SAFETY: `repr(C)`, an address and an array of addresses leave no padding.
unsafe impl<F: Family> Pod for NodeIps<F> {}

impl<F: Family> NodeIps<F> {
    /// The largest number of addresses a family.
    pub const CAPACITY: usize = CAPACITY;
}
