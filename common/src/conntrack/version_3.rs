//! A conntrack entry as it is since version 3 of the layouts.

use bytemuck::{Pod, Zeroable};

use crate::{Family, Folded, Tuple, V4, V6};

/// What becomes of a connection's packets in one direction, and what they have said so far.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConntrackEntry<F: Family> {
    /// The tuple that the packet leaves with.
    pub translated: Tuple<F>,
    /// Index of the connection's backend in the backend table.
    pub backend: u32,
    /// The backend's generation when the connection was made.
    pub generation: u16,
    /// What packets of this direction have been seen: [`Self::PACKET`], [`Self::FIN`],
    /// [`Self::RST`]. From the begin [`Self::KEEPS_CLIENT`], if it is so.
    pub seen: u16,
    /// The tick of the agent's clock when the last packet of this direction was seen.
    pub last_seen: u32,
    /// What a checksum over the addresses changes by.
    pub address_change: Folded,
    /// What a checksum over the ports changes by.
    pub port_change: Folded,
    /// Zero.
    pub padding: u32,
}

const _: () = assert!(
    size_of::<ConntrackEntry<V4>>() == 32,
    "12 + 4 + 2 * 2 + 4 + 2 * 2 + 4"
);
const _: () = assert!(
    size_of::<ConntrackEntry<V6>>() == 56,
    "36 + 4 + 2 * 2 + 4 + 2 * 2 + 4"
);

// SAFETY: `repr(C)`, every field is `Zeroable`.
unsafe impl<F: Family> Zeroable for ConntrackEntry<F> {}
// SAFETY: `repr(C)`, every field is `Pod`, and the assertions above rule out padding.
unsafe impl<F: Family> Pod for ConntrackEntry<F> {}
