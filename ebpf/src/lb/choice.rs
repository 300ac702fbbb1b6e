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
    /// None: it is of a share that is refused.
    Refused,
    /// It depends on the client's address, which is not known here.
    Elsewhere,
    /// A slot or a backend that the tables point at does not exist.
    Corrupt,
}

/// The slot of the cell's slice that is the client's, and the index of its backend there.
#[inline(always)]
fn slot_for<F: Tables>(cell: Cell, client: &impl Client<F>) -> Option<(&'static Slot, u32)> {
    if cell.has(Cell::MAGLEV) {
        let slot = F::slots().get(client.maglev_slot(cell)?)?;
        return Some((slot, slot.backend));
    }
    at_random::<F>(cell, client.draw(cell))
}

/// The slot of the cell's slice that the number falls into, and the index of its backend there.
#[inline(always)]
pub(crate) fn at_random<F: Tables>(cell: Cell, random: u32) -> Option<(&'static Slot, u32)> {
    let (slot, fraction) = Slot::locate(random, cell.count());
    let slot = F::slots().get(cell.offset() + slot)?;
    Some((slot, slot.select(fraction)))
}

/// Selects a backend of the cell's slice, which is not empty: the one that the client had last,
/// through any frontend of the service port, if the service has session affinity, or one by its Maglev
/// table or by weight.
#[inline(always)]
pub(crate) fn choose<F: Tables>(cell: Cell, client: &impl Client<F>) -> Chosen<F> {
    let Some((slot, index)) = slot_for(cell, client) else {
        return Chosen::Corrupt;
    };
    let drawn = match Choice::at(index) {
        Some(choice) => Some(choice),
        None if index == Slot::REFUSED => None,
        None => return Chosen::Corrupt,
    };
    if slot.affinity == 0 {
        return drawn.map_or(Chosen::Refused, Chosen::Backend);
    }
    let Some(client) = client.address() else {
        return Chosen::Elsewhere;
    };
    // A client that has a backend stays with it, whatever it would have drawn. Any backend of the slice
    // shows whose clients are meant, and the first slot always names one.
    let Some(any) = drawn
        .as_ref()
        .map(|choice| choice.backend)
        .or_else(|| first(cell))
    else {
        return Chosen::Corrupt;
    };
    let key = AffinityKey::new(client, any);
    let set = if cell.has(Cell::LOCAL_SET) {
        Backend::<F>::IN_LOCAL_SET
    } else {
        Backend::<F>::IN_CLUSTER_SET
    };
    let usable = |backend: &Backend<F>| {
        backend.weight > 0 && backend.flags & set != 0 && backend.has_owner_of(any)
    };
    if let Some(last) = affinity::recall(&key, slot.affinity, usable) {
        return Chosen::Backend(last);
    }
    let Some(choice) = drawn else {
        return Chosen::Refused;
    };
    affinity::remember(&key, &choice);
    Chosen::Backend(choice)
}

/// The backend that the first slot of the cell's slice names.
#[inline(always)]
fn first<F: Tables>(cell: Cell) -> Option<&'static Backend<F>> {
    let slot = F::slots().get(cell.offset())?;
    Some(Choice::at(slot.backend)?.backend)
}
