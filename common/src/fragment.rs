//! Fragments: what the first one of a datagram became, so that the later ones, which have no
//! ports, can follow it.

use bytemuck::{Pod, Zeroable};

use crate::{Family, Tuple, V4, V6};

/// The place where a packet meets a program. The two have keys of their own: a backend's fragment
/// that passes the ingress of an interface is not to be taken for what it becomes at the egress.
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// As it comes in.
    Ingress = 0,
    /// As it goes out.
    Egress = 1,
}

/// Key of the fragment table: what all fragments of a datagram have in common (RFC 791 section
/// 2.3, RFC 8200 section 4.5).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FragmentKey<F: Family> {
    /// Source address before translation, network order.
    pub source: F::Address,
    /// Destination address before translation, network order.
    pub destination: F::Address,
    /// The datagram's identification, as it stands in the packet.
    pub identification: u32,
    /// IPv4: the protocol. IPv6: 0, since only the first fragment's is true.
    pub protocol: u8,
    /// A [`Hook`].
    pub hook: u8,
    /// Zero.
    pub padding: u16,
}

const _: () = assert!(size_of::<FragmentKey<V4>>() == 16, "4 + 4 + 4 + 1 + 1 + 2");
const _: () = assert!(
    size_of::<FragmentKey<V6>>() == 40,
    "16 + 16 + 4 + 1 + 1 + 2"
);

// SAFETY: `repr(C)`, every field is `Zeroable`.
unsafe impl<F: Family> Zeroable for FragmentKey<F> {}
// SAFETY: `repr(C)`, every field is `Pod`, and the assertions above rule out padding.
unsafe impl<F: Family> Pod for FragmentKey<F> {}

/// Outcome of a datagram's first fragment.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FragmentEntry<F: Family> {
    /// The tuple that it left with.
    pub translated: Tuple<F>,
    /// The tick of the agent's clock at which it did.
    pub seen: u32,
}

const _: () = assert!(size_of::<FragmentEntry<V4>>() == 16, "12 + 4");
const _: () = assert!(size_of::<FragmentEntry<V6>>() == 40, "36 + 4");

// SAFETY: `repr(C)`, every field is `Zeroable`.
unsafe impl<F: Family> Zeroable for FragmentEntry<F> {}
// SAFETY: `repr(C)`, every field is `Pod`, and the assertions above rule out padding.
unsafe impl<F: Family> Pod for FragmentEntry<F> {}

impl<F: Family> FragmentEntry<F> {
    /// For how many seconds it is true: as long as Linux waits for a datagram's fragments
    /// (`net.ipv4.ipfrag_time`).
    pub const LIFETIME: u32 = 30;
}
