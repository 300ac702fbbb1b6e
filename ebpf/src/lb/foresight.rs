//! The backend that a packet which is likely to be the first of a connection is going to get.

use shunt_common::{Backend, Cell, connections::Key};

use crate::{
    lb::{choice::at_random, client::draw, draw::Draw, frontend::cell_at, maglev::Maglev},
    maps::{backends::Choice, tables::Tables},
};

/// Foresees that the client of a SYN with this key and sequence number asks the frontend with this index. Returns the
/// backend that it is likely to get.
#[inline(always)]
pub(crate) fn foresee<F: Draw + Maglev>(
    frontend: u32,
    key: &Key<F>,
    sequence: impl FnOnce() -> u32,
) -> Option<&'static Backend<F>> {
    let cell = cell_at::<F>(frontend)?;
    if cell.count() == 0 {
        return None;
    }
    if cell.has(Cell::MAGLEV) {
        let slot = F::slots().get(F::slot_of(key, cell)?)?;
        let choice = Choice::at(slot.backend)?;
        return (slot.affinity == 0).then_some(choice.backend);
    }
    let drawn = if cell.has(Cell::REFUSES) {
        F::number(key, sequence())
    } else {
        let opening = F::openings().get_ptr_mut(0)?;
        let drawn = draw();
        // SAFETY: this CPU's own, and no other packet is in its programs before this one is through.
        unsafe { (*opening).drawn = drawn };
        drawn
    };
    let (slot, backend) = at_random::<F>(cell, drawn)?;
    let choice = Choice::at(backend)?;
    (slot.affinity == 0).then_some(choice.backend)
}

/// The random number for a choice: the one that was drawn when it was foreseen. If the packet that it
/// was drawn for did not choose, the next one has it; it is used once at most.
#[inline(always)]
pub(crate) fn drawn<F: Tables>() -> u32 {
    let Some(opening) = F::openings().get_ptr_mut(0) else {
        return draw();
    };
    // SAFETY: as in `foresee`.
    match core::mem::take(unsafe { &mut (*opening).drawn }) {
        0 => draw(),
        drawn => drawn,
    }
}
