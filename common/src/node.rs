//! This node's own addresses.

use bytemuck::{Pod, Zeroable};

use crate::{Family, V4, V6};

/// The largest number of addresses a family.
const CAPACITY: usize = 8;

/// A node's addresses and state of one family.
///
/// Its addresses are in network order. A place that holds 0 is free; an address
/// stays at its place for as long as it is the node's, so that a packet which reads while others
/// change finds it.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeIps<F: Family> {
    /// The address that connections from outside to a backend elsewhere go on from; 0: none.
    pub snat: F::Address,
    /// All of them.
    pub own: [F::Address; CAPACITY],
    /// Possible receivers besides pods, a frontend or this node, of packets for an address of this node's pods' ranges:
    /// [`Self::UNKNOWN`], [`Self::NEVER`] or [`Self::SOME`].
    pub pod_frontends: u32,
}

const _: () = assert!(size_of::<NodeIps<V4>>() == 4 + 4 * CAPACITY + 4);
const _: () = assert!(size_of::<NodeIps<V6>>() == 16 + 16 * CAPACITY + 4);

// SAFETY: `repr(C)`, every field is `Zeroable`.
unsafe impl<F: Family> Zeroable for NodeIps<F> {}
// SAFETY: `repr(C)`, an address, an array of addresses and a word leave no padding.
unsafe impl<F: Family> Pod for NodeIps<F> {}

impl<F: Family> NodeIps<F> {
    /// The largest number of addresses a family.
    pub const CAPACITY: usize = CAPACITY;

    /// It is not known.
    pub const UNKNOWN: u32 = 0;
    /// No other receiver has such an address, or ever had.
    pub const NEVER: u32 = 1;
    /// Another receiver has or had one, and may still have connections.
    pub const SOME: u32 = 2;
}
