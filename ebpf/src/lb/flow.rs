//! The choice of a backend by the packet alone: each packet of a flow gets the same one, and on each node
//! that has the same backends.

use shunt_common::{
    Cell, Slot, Tuple,
    connections::{Key, Role, Wide},
    maglev::{self, client_number},
};

use crate::{
    lb::{choice::at_random, maglev::slot_by},
    maps::{addresses::has_dsr_sources, backends::Choice, constants::Constants, tables::Tables},
};

/// Outcome of a choice for the packets of a flow.
pub(crate) enum Share<F: Tables> {
    /// This backend.
    Backend(Choice<F>),
    /// None: they are of a share that is refused.
    Refused,
}

/// Chooses a backend of the cell's slice, which is not empty, for packets with this tuple: by its Maglev
/// table, if it has one. With session affinity, by the client's address alone.
#[inline(always)]
pub(crate) fn choose<F: Tables>(cell: Cell, tuple: &Tuple<F>, protocol: u8) -> Option<Share<F>> {
    let number = |stays| number(tuple, protocol, stays);
    let index = if cell.has(Cell::MAGLEV) {
        F::slots().get(slot_by::<F>(cell, number)?)?.backend
    } else {
        let stays = F::slots().get(cell.offset())?.affinity > 0;
        at_random::<F>(cell, number(stays))?.1
    };
    match Choice::at(index) {
        Some(choice) => Some(Share::Backend(choice)),
        None => (index == Slot::REFUSED).then_some(Share::Refused),
    }
}

/// Returns a number by which envelopes distinguish the flow with this tuple from others, if they are to.
#[inline(always)]
pub(crate) fn label<F: Constants + Wide>(tuple: &Tuple<F>, protocol: u8) -> Option<u32> {
    has_dsr_sources::<F>().then(|| labelled(tuple, protocol))
}

/// The number. A function of its own: its callers' stack is short.
#[inline(never)]
fn labelled<F: Wide>(tuple: &Tuple<F>, protocol: u8) -> u32 {
    number(tuple, protocol, false)
}

/// The number of the flow with this tuple, the same on every node, or that of its client, if clients stay
/// with their backends.
#[inline(always)]
fn number<F: Wide>(tuple: &Tuple<F>, protocol: u8, stays: bool) -> u32 {
    if stays {
        client_number::<F>(tuple.source)
    } else {
        maglev::number(&Key::new(tuple, protocol, Role::Forward))
    }
}
