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
    /// [`Self::LOCAL`], [`Self::IN_CLUSTER_SET`], [`Self::IN_LOCAL_SET`], [`Self::LEFT`], and in the upper
    /// 24 bits the number of the service port, which no other one of the family has at the time.
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
    /// It has left its service port, and its [generation](Self::generation) changes next. Packets that read the
    /// frontend before may still choose it.
    pub const LEFT: u32 = 8;
    /// The bits of the service port's number.
    pub const OWNER: u32 = !0xff;

    /// The number of its service port, in the upper 24 bits.
    #[inline]
    pub const fn owner(&self) -> u32 {
        self.flags & Self::OWNER
    }

    /// Returns whether the two belong to one service port.
    #[inline]
    pub const fn has_owner_of(&self, other: &Self) -> bool {
        self.owner() == other.owner()
    }
}

/// Number of connections that a backend was chosen for, and the owner of that count: the lower 48 bits, to which
/// programs add, and the generation of the backend's index, which distinguishes a later owner of the index from an
/// earlier one.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Pod, Zeroable)]
pub struct BackendConnections(pub u64);

impl BackendConnections {
    const COUNT_BITS: u32 = 48;

    /// No connection yet, of the backend with this generation.
    #[inline]
    pub const fn none(generation: u16) -> Self {
        Self((generation as u64) << Self::COUNT_BITS)
    }

    /// Returns whether it is the count of the backend with this generation.
    #[inline]
    pub const fn is_of(self, generation: u16) -> bool {
        self.0 >> Self::COUNT_BITS == generation as u64
    }

    /// The count of the backend with this generation; 0 if it is another one's.
    #[inline]
    pub const fn of(self, generation: u16) -> u64 {
        if self.is_of(generation) {
            self.0 & ((1 << Self::COUNT_BITS) - 1)
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_that_of_one_generation() {
        let counted = BackendConnections(BackendConnections::none(7).0 + 3);
        assert!(counted.is_of(7));
        assert_eq!(counted.of(7), 3);
        assert_eq!(counted.of(8), 0, "another backend has the index by now");
        assert_eq!(BackendConnections::none(u16::MAX).of(u16::MAX), 0);
        assert_eq!(BackendConnections::default().of(0), 0);
    }
}
