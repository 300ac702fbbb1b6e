//! The choice of a backend for a new connection.

use aya_ebpf::helpers::bpf_get_prandom_u32;
use shunt_common::{AffinityKey, Backend, Cell, FrontendKey, Slot};

use crate::{
    lb::affinity,
    maps::{backends::Choice, tables::Tables},
};

/// Selects a backend of the cell's slice, which is not empty: the one that the client had last,
/// if the service has session affinity, or one by weight.
#[inline(always)]
pub(crate) fn choose<F: Tables>(
    key: FrontendKey<F>,
    cell: Cell,
    client: F::Address,
) -> Option<Choice<F>> {
    // SAFETY: the helper has no preconditions.
    let random = unsafe { bpf_get_prandom_u32() };
    let (slot, fraction) = Slot::locate(random, cell.count());
    let slot = F::slots().get(cell.offset() + slot)?;
    let choice = Choice::at(slot.select(fraction))?;
    if slot.affinity == 0 {
        return Some(choice);
    }
    let key = AffinityKey {
        client,
        frontend: key.scoped(FrontendKey::<F>::EVERYONE),
    };
    let set = if cell.has(Cell::LOCAL_SET) {
        Backend::<F>::IN_LOCAL_SET
    } else {
        Backend::<F>::IN_CLUSTER_SET
    };
    let usable = |backend: &Backend<F>| {
        backend.weight > 0 && backend.flags & set != 0 && backend.has_owner_of(choice.backend)
    };
    if let Some(last) = affinity::recall(&key, slot.affinity, usable) {
        return Some(last);
    }
    affinity::remember(&key, &choice);
    Some(choice)
}
