//! Who asks a frontend.

use crate::maps::{addresses::is_on_this_node, tables::Tables};

/// What load balancing has to know of a client.
pub(crate) trait Client<F: Tables> {
    /// Its address. `None` if what depends on it is decided elsewhere: such a frontend is none for
    /// this client here.
    fn address(&self) -> Option<F::Address>;

    /// Whether it is on this node: one of its pods, or the node itself.
    fn is_on_this_node(&self) -> bool;
}

/// Whoever sent a packet.
pub(crate) struct Sender<F: Tables>(pub(crate) F::Address);

impl<F: Tables> Client<F> for Sender<F> {
    #[inline(always)]
    fn address(&self) -> Option<F::Address> {
        Some(self.0)
    }

    #[inline(always)]
    fn is_on_this_node(&self) -> bool {
        is_on_this_node::<F>(&self.0)
    }
}
