//! The choice of a backend for a new connection.

use shunt_common::{AffinityKey, Backend, Cell, Slot};

use crate::{
    lb::{affinity, client::Client},
    maps::{backends::Choice, tables::Tables},
};

/// The backend for a new connection.
pub(crate) enum Chosen<F: Tables> {
    /// This one.
    Backend(Choice<F>),
    /// It depends on the client's address, which is not known here.
    Elsewhere,
    /// A slot or a backend that the tables point at does not exist.
    Corrupt,
}

/// The slot of the cell's slice that is the client's, and its backend there.
#[inline(always)]
fn slot_for<F: Tables>(cell: Cell, client: &impl Client<F>) -> Option<(&'static Slot, Choice<F>)> {
    if cell.has(Cell::MAGLEV) {
        let slot = F::slots().get(client.maglev_slot(cell)?)?;
        return Some((slot, Choice::at(slot.backend)?));
    }
    at_random(cell, client.draw())
}

/// The slot of the cell's slice that the number falls into, and its backend there.
#[inline(always)]
pub(crate) fn at_random<F: Tables>(cell: Cell, random: u32) -> Option<(&'static Slot, Choice<F>)> {
    let (slot, fraction) = Slot::locate(random, cell.count());
    let slot = F::slots().get(cell.offset() + slot)?;
    let choice = Choice::at(slot.select(fraction))?;
    Some((slot, choice))
}

/// Selects a backend of the cell's slice, which is not empty: the one that the client had last,
/// through any frontend of the service port, if the service has session affinity, or one by its Maglev
/// table or by weight.
#[inline(always)]
pub(crate) fn choose<F: Tables>(cell: Cell, client: &impl Client<F>) -> Chosen<F> {
    let Some((slot, choice)) = slot_for(cell, client) else {
        return Chosen::Corrupt;
    };
    if slot.affinity == 0 {
        return Chosen::Backend(choice);
    }
    let Some(client) = client.address() else {
        return Chosen::Elsewhere;
    };
    let key = AffinityKey::new(client, choice.backend);
    let set = if cell.has(Cell::LOCAL_SET) {
        Backend::<F>::IN_LOCAL_SET
    } else {
        Backend::<F>::IN_CLUSTER_SET
    };
    let usable = |backend: &Backend<F>| {
        backend.weight > 0 && backend.flags & set != 0 && backend.has_owner_of(choice.backend)
    };
    if let Some(last) = affinity::recall(&key, slot.affinity, usable) {
        return Chosen::Backend(last);
    }
    affinity::remember(&key, &choice);
    Chosen::Backend(choice)
}
