//! Backends: where connections go.

use bytemuck::{Pod, Zeroable};

use crate::{Family, V4, V6};

/// One entry of the backend table. An entry belongs to one service port; another service with the
/// same pod has an entry of its own, so that leaving one service does not mean leaving both.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backend<F: Family> {
    /// The backend's address, network order.
    pub address: F::Address,
    /// Its share of new connections, as it was rendered; the slots follow from it.
    pub weight: u32,
    /// The backend's port, network order.
    pub port: u16,
    /// Changes whenever the index is given to another backend or taken from one. A connection
    /// that remembers another generation remembers a backend that is gone.
    pub generation: u16,
    /// [`Self::LOCAL`], [`Self::IN_CLUSTER_SET`], [`Self::IN_LOCAL_SET`], and in the upper 24 bits
    /// the number of the service port, which no other one of the family has at the time.
    pub flags: u32,
}

const _: () = assert!(size_of::<Backend<V4>>() == 16, "4 + 4 + 2 + 2 + 4");
const _: () = assert!(size_of::<Backend<V6>>() == 28, "16 + 4 + 2 + 2 + 4");

// SAFETY: `repr(C)`, every field is `Zeroable`.
unsafe impl<F: Family> Zeroable for Backend<F> {}
// SAFETY: `repr(C)`, every field is `Pod`, and the assertions above rule out padding.
unsafe impl<F: Family> Pod for Backend<F> {}

impl<F: Family> Backend<F> {
    /// The backend runs on this node.
    pub const LOCAL: u32 = 1;
    /// It is in the set of its service port for policy Cluster.
    pub const IN_CLUSTER_SET: u32 = 2;
    /// It is in the set of its service port for policy Local.
    pub const IN_LOCAL_SET: u32 = 4;
    /// The bits of the service port's number.
    pub const OWNER: u32 = !0xff;

    /// The number of its service port, in the upper 24 bits.
    #[inline]
    pub const fn owner(&self) -> u32 {
        self.flags & Self::OWNER
    }

    /// Whether the two belong to one service port.
    #[inline]
    pub const fn has_owner_of(&self, other: &Self) -> bool {
        self.owner() == other.owner()
    }
}
