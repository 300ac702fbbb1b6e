//! Session affinity: a client stays with the backend that it had last.

use bytemuck::{Pod, Zeroable};

use crate::{Family, FrontendKey, V4, V6};

/// Key of the affinity table.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AffinityKey<F: Family> {
    /// The client, network order.
    pub client: F::Address,
    /// The frontend.
    pub frontend: FrontendKey<F>,
}

const _: () = assert!(size_of::<AffinityKey<V4>>() == 12, "4 + 8");
const _: () = assert!(size_of::<AffinityKey<V6>>() == 36, "16 + 20");

// SAFETY: `repr(C)`, every field is `Zeroable`.
unsafe impl<F: Family> Zeroable for AffinityKey<F> {}
// SAFETY: `repr(C)`, every field is `Pod`, and the assertions above rule out padding.
unsafe impl<F: Family> Pod for AffinityKey<F> {}

/// Whom a client had last.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
pub struct AffinityEntry {
    /// Index in the backend table.
    pub backend: u32,
    /// The tick of the agent's clock at which it last opened a connection.
    pub last_used: u32,
    /// The backend's generation then.
    pub generation: u16,
    /// Zero.
    pub padding: [u8; 2],
}
