//! Backends by their index in the backend table.

use shunt_common::Backend;

use crate::maps::{atomic::add_one, tables::Tables};

/// A backend that was chosen for a connection.
pub(crate) struct Choice<F: Tables> {
    /// Its index in the backend table.
    pub index: u32,
    /// Its entry there. The agent gives it to no other backend while a program runs.
    pub backend: &'static Backend<F>,
}

impl<F: Tables> Choice<F> {
    /// The backend at `index`.
    #[inline(always)]
    pub(crate) fn at(index: u32) -> Option<Self> {
        let backend = F::backends().get(index)?;
        Some(Self { index, backend })
    }

    /// The generation that a connection to it remembers: one that has passed if the backend has left its service
    /// since the frontend was read, so that the next datagram picks again.
    #[inline(always)]
    pub(crate) fn generation(&self) -> u16 {
        // SAFETY: fields of a live entry. The agent writes them while we run, the flags first; volatile, so that they
        // are read in the other order.
        let (generation, flags) = unsafe {
            let generation = (&raw const self.backend.generation).read_volatile();
            (generation, (&raw const self.backend.flags).read_volatile())
        };
        if flags & Backend::<F>::LEFT == 0 {
            generation
        } else {
            generation.wrapping_sub(1)
        }
    }
}

/// Returns whether the backend at `index` is still the one that it was at `generation`.
#[inline(always)]
pub(crate) fn is_current<F: Tables>(index: u32, generation: u16) -> bool {
    F::backends()
        .get(index)
        .is_some_and(|backend| backend.generation == generation)
}

/// Counts a connection of the backend at `index`, if there is one. Packets may interrupt a system call here.
#[inline(always)]
pub(crate) fn count_connection<F: Tables>(index: u32) {
    if let Some(count) = F::backend_connections().get_ptr_mut(index) {
        // SAFETY: the lookup gave a word of the table.
        unsafe { add_one(count) };
    }
}
