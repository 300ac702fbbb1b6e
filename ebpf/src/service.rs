//! Services: from a packet's destination to a backend.

use aya_ebpf::helpers::bpf_get_prandom_u32;
use shunt_common::{Backend, Cell, Counter, FrontendKey, Slot, Tuple};

use crate::{family::Family, packet::Packet};

/// A backend that was chosen for a connection.
pub struct Choice<F: Family> {
    /// Its index in the backend table.
    pub index: u32,
    /// What the table said of it.
    pub backend: Backend<F>,
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
        destination,
        destination_port,
        ..
    } = packet.tuple;
    let key = FrontendKey::<F>::new(destination, destination_port, packet.protocol);
    // SAFETY: an index is a word, written and replaced whole.
    let Some(&frontend) = (unsafe { F::frontends().get(key) }) else {
        return Lookup::NotAFrontend;
    };
    let Some(word) = F::cells().get_ptr(frontend) else {
        return Lookup::Dropped(Counter::DropCorrupt);
    };
    // SAFETY: the lookup gave a word of the table. The agent replaces it while we run; volatile,
    // so that it is read once: a slice's offset and count belong together.
    let cell = Cell::from_word(unsafe { word.read_volatile() });
    if cell.has(Cell::THIS_NODE_ONLY) && !F::pod_cidrs().contains(&packet.tuple.source) {
        return Lookup::NotAFrontend;
    }
    if cell.count() == 0 || cell.has(Cell::UNUSABLE) {
        return if cell.has(Cell::DROPS) {
            Lookup::Dropped(Counter::DropNoBackend)
        } else {
            Lookup::Rejected
        };
    }
    // SAFETY: the helper has no preconditions.
    let random = unsafe { bpf_get_prandom_u32() };
    let (slot, fraction) = Slot::locate(random, cell.count());
    let Some(slot) = F::slots().get(cell.offset() + slot) else {
        return Lookup::Dropped(Counter::DropCorrupt);
    };
    let index = slot.select(fraction);
    match F::backends().get(index) {
        Some(backend) => Lookup::Backend(Choice {
            index,
            backend: *backend,
        }),
        None => Lookup::Dropped(Counter::DropCorrupt),
    }
}

/// Whether the backend at `index` is still the one that it was at `generation`.
#[inline(always)]
pub fn is_current<F: Family>(index: u32, generation: u16) -> bool {
    F::backends()
        .get(index)
        .is_some_and(|backend| backend.generation == generation)
}
