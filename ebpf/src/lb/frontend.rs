//! Frontends: what a packet's destination means.

use aya_ebpf::btf_maps::lpm_trie::Key as LpmKey;
use shunt_common::{Cell, Counter, FrontendKey, SourceRange, Tuple};

use crate::{
    lb::choice::choose,
    maps::{addresses::is_on_this_node, backends::Choice, tables::Tables},
    packet::parsed::Packet,
};

/// What a packet's destination means.
pub(crate) enum Lookup<F: Tables> {
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
pub(crate) fn select<F: Tables>(packet: &Packet<F>) -> Lookup<F> {
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
    if cell.has(Cell::THIS_NODE_ONLY) && !is_on_this_node::<F>(&source) {
        return Lookup::NotAFrontend;
    }
    if cell.has(Cell::RANGES) && !in_ranges(key, cell, source) {
        return Lookup::Dropped(Counter::DropSourceRange);
    }
    if cell.has(Cell::TWO_SETS) && is_on_this_node::<F>(&source) {
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
pub(crate) fn exists<F: Tables>(address: &F::Address, port: u16, protocol: u8) -> bool {
    let key = FrontendKey::<F>::new(*address, port, protocol);
    // SAFETY: the value is not read.
    unsafe { F::frontends().get(key) }.is_some()
}

/// The cell of the frontend with this key.
#[inline(always)]
fn cell_of<F: Tables>(key: FrontendKey<F>) -> Option<Cell> {
    // SAFETY: an index is a word, written and replaced whole.
    let frontend = *unsafe { F::frontends().get(key) }?;
    let word = F::cells().get_ptr(frontend)?;
    // SAFETY: the lookup gave a word of the table. The agent replaces it while we run; volatile,
    // so that it is read once: a slice's offset and count belong together.
    Some(Cell::from_word(unsafe { word.read_volatile() }))
}

/// Whether the client is in one of the frontend's source ranges.
#[inline(always)]
fn in_ranges<F: Tables>(key: FrontendKey<F>, cell: Cell, client: F::Address) -> bool {
    let range = SourceRange {
        frontend: key.scoped(u8::from(cell.has(Cell::SECOND_RANGES))),
        client,
    };
    F::source_ranges()
        .get(&LpmKey::new(SourceRange::<F>::BITS, range))
        .is_some()
}
