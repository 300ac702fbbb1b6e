//! Session affinity: a client stays with the backend that it had last.

use bytemuck::{Pod, Zeroable};

use crate::{Backend, Family, V4, V6};

/// Key of the affinity table: a client of a service port, by whichever of its frontends.
///
/// Earlier versions had a frontend's address, port and protocol in the place of the last two fields.
/// No frontend has the unspecified address, so no program finds such an entry.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AffinityKey<F: Family> {
    /// The client, network order.
    pub client: F::Address,
    /// The unspecified address.
    pub nobody: F::Address,
    /// The number of the service port, as its [backends have it](Backend::owner).
    pub service_port: u32,
}

const _: () = assert!(size_of::<AffinityKey<V4>>() == 12, "4 + 4 + 4");
const _: () = assert!(size_of::<AffinityKey<V6>>() == 36, "16 + 16 + 4");

// SAFETY: `repr(C)`, every field is `Zeroable`.
unsafe impl<F: Family> Zeroable for AffinityKey<F> {}
// SAFETY: `repr(C)`, every field is `Pod`, and the assertions above rule out padding.
unsafe impl<F: Family> Pod for AffinityKey<F> {}

impl<F: Family> AffinityKey<F> {
    /// The key of `client` at the service port of this backend.
    #[inline]
    pub fn new(client: F::Address, backend: &Backend<F>) -> Self {
        Self {
            client,
            nobody: F::Address::zeroed(),
            service_port: backend.owner(),
        }
    }
}

/// The last backend of a client.
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
