//! Whoever sent a packet, as a client.

use crate::{
    lb::{client::Client, foresight::drawn},
    maps::{addresses::is_on_this_node, tables::Tables},
};

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

    #[inline(always)]
    fn draw(&self) -> u32 {
        drawn::<F>()
    }
}
