//! Services: from a packet's destination to a backend.

use aya_ebpf::{btf_maps::lpm_trie::Key as LpmKey, helpers::bpf_get_prandom_u32};
use shunt_common::{AffinityKey, Backend, Cell, Counter, FrontendKey, Slot, SourceRange, Tuple};

use crate::{affinity, family::Family, packet::Packet, place};

/// A backend that was chosen for a connection.
pub struct Choice<F: Family> {
    /// Its index in the backend table.
    pub index: u32,
    /// Its entry there. The agent gives it to nobody else while a program runs.
    pub backend: &'static Backend<F>,
}

/// What a packet's destination means.
pub enum Lookup<F: Family> {
    /// No frontend, or one that is not for this client.
    NotAFrontend,
    /// A frontend that selected a backend.
    Backend(Choice<F>),
    /// A frontend without a usable backend: the client is to be told.
    Rejected,
    /// A frontend that has none for another reason: silence.
    Dropped(Counter),
}

/// Looks up the frontend at the packet's destination and selects one of its backends.
#[inline(always)]
pub fn select<F: Family>(packet: &Packet<F>) -> Lookup<F> {
    let Tuple {
        source,
        destination,
        destination_port,
        ..
    } = packet.tuple;
    let mut key = FrontendKey::<F>::new(destination, destination_port, packet.protocol);
    let Some(mut cell) = cell_of(key) else {
        return Lookup::NotAFrontend;
    };
    if cell.has(Cell::THIS_NODE_ONLY) && !place::is_here::<F>(&source) {
        return Lookup::NotAFrontend;
    }
    if cell.has(Cell::RANGES) && !in_ranges(key, cell, source) {
        return Lookup::Dropped(Counter::DropSourceRange);
    }
    if cell.has(Cell::TWO_SETS) && place::is_here::<F>(&source) {
        key.scope = FrontendKey::<F>::THIS_NODE;
        if let Some(other) = cell_of(key) {
            cell = other;
        }
    }
    if cell.count() == 0 || cell.has(Cell::UNUSABLE) {
        return if cell.has(Cell::DROPS) {
            Lookup::Dropped(Counter::DropNoBackend)
        } else {
            Lookup::Rejected
        };
    }
    match choose(key, cell, source) {
        Some(choice) => Lookup::Backend(choice),
        None => Lookup::Dropped(Counter::DropCorrupt),
    }
}

/// Whether there is a frontend at this address and port, network order.
#[inline(always)]
pub fn exists<F: Family>(address: &F::Address, port: u16, protocol: u8) -> bool {
    let key = FrontendKey::<F>::new(*address, port, protocol);
    // SAFETY: the value is not read.
    unsafe { F::frontends().get(key) }.is_some()
}

/// The cell of the frontend with this key.
#[inline(always)]
fn cell_of<F: Family>(key: FrontendKey<F>) -> Option<Cell> {
    // SAFETY: an index is a word, written and replaced whole.
    let frontend = *unsafe { F::frontends().get(key) }?;
    let word = F::cells().get_ptr(frontend)?;
    // SAFETY: the lookup gave a word of the table. The agent replaces it while we run; volatile,
    // so that it is read once: a slice's offset and count belong together.
    Some(Cell::from_word(unsafe { word.read_volatile() }))
}

/// Whether the client is in one of the frontend's source ranges.
#[inline(always)]
fn in_ranges<F: Family>(key: FrontendKey<F>, cell: Cell, client: F::Address) -> bool {
    let range = SourceRange {
        frontend: key.scoped(u8::from(cell.has(Cell::SECOND_RANGES))),
        client,
    };
    F::source_ranges()
        .get(&LpmKey::new(SourceRange::<F>::BITS, range))
        .is_some()
}

/// Selects a backend of the cell's slice, which is not empty: the one that the client had last,
/// if the service has session affinity, or one by weight.
#[inline(always)]
fn choose<F: Family>(key: FrontendKey<F>, cell: Cell, client: F::Address) -> Option<Choice<F>> {
    // SAFETY: the helper has no preconditions.
    let random = unsafe { bpf_get_prandom_u32() };
    let (slot, fraction) = Slot::locate(random, cell.count());
    let slot = F::slots().get(cell.offset() + slot)?;
    let index = slot.select(fraction);
    let choice = Choice {
        index,
        backend: F::backends().get(index)?,
    };
    if slot.affinity == 0 {
        return Some(choice);
    }
    let bond = AffinityKey {
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
    if let Some(last) = affinity::recall(&bond, slot.affinity, usable) {
        return Some(last);
    }
    affinity::remember(&bond, &choice);
    Some(choice)
}

/// Whether the backend at `index` is still the one that it was at `generation`.
#[inline(always)]
pub fn is_current<F: Family>(index: u32, generation: u16) -> bool {
    F::backends()
        .get(index)
        .is_some_and(|backend| backend.generation == generation)
}
