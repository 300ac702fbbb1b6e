//! Source ranges: who may use a load balancer's address.

use bytemuck::{Pod, Zeroable};

use crate::{Family, FrontendKey, V4, V6};

/// Key of the source range table, behind the prefix length that such a table's key begins with: the
/// frontend, all of it, then as much of the client's address as the range has.
///
/// The frontend's scope distinguishes the two lists, of which the cell chooses the one that holds
/// ([`crate::Cell::SECOND_RANGES`]): a list is replaced by writing the other one and then the cell.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SourceRange<F: Family> {
    /// The frontend.
    pub frontend: FrontendKey<F>,
    /// The client, or the range's address, network order.
    pub client: F::Address,
}

const _: () = assert!(size_of::<SourceRange<V4>>() == 12, "8 + 4");
const _: () = assert!(size_of::<SourceRange<V6>>() == 36, "20 + 16");

// SAFETY: `repr(C)`, every field is `Zeroable`.
unsafe impl<F: Family> Zeroable for SourceRange<F> {}
// SAFETY: `repr(C)`, every field is `Pod`, and the assertions above rule out padding.
unsafe impl<F: Family> Pod for SourceRange<F> {}

impl<F: Family> SourceRange<F> {
    /// The prefix length of the frontend, in bits.
    pub const FRONTEND_BITS: u32 = size_of::<FrontendKey<F>>() as u32 * 8;
    /// The prefix length of a whole key, in bits.
    pub const BITS: u32 = size_of::<Self>() as u32 * 8;
}
