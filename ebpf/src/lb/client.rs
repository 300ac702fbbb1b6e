//! Client of a frontend.

use aya_ebpf::helpers::bpf_get_prandom_u32;

use shunt_common::Cell;

use crate::maps::tables::Tables;

/// Facts about a client that load balancing needs.
pub(crate) trait Client<F: Tables> {
    /// Its address. `None` if what depends on it is decided elsewhere: such a frontend is none for
    /// this client here.
    fn address(&self) -> Option<F::Address>;

    /// Returns whether it is on this node: one of its pods, or the node itself.
    fn is_on_this_node(&self) -> bool;

    /// The slot that it has by the Maglev table of the cell's slice.
    fn maglev_slot(&self, cell: Cell) -> Option<u32>;

    /// Returns whether it is to have one of this node's own backends, if there are any: of a frontend whose other
    /// clients get theirs from each backend's node.
    #[inline(always)]
    fn is_for_own(&self) -> bool {
        false
    }

    /// The random number by which it gets a backend of the cell's slice.
    #[inline(always)]
    fn draw(&self, _: Cell) -> u32 {
        draw()
    }
}

/// A random number.
#[inline(always)]
pub(crate) fn draw() -> u32 {
    // SAFETY: the helper has no preconditions.
    unsafe { bpf_get_prandom_u32() }
}
