//! Frontends: what an address and a port mean to a client.

use core::cell;

use aya_ebpf::btf_maps::lpm_trie::Key as LpmKey;
use shunt_common::{Cell, Counter, FrontendKey, SourceRange};

use crate::{
    lb::{
        choice::{Chosen, choose},
        client::Client,
    },
    maps::{backends::Choice, services::service_of, tables::Tables},
};

/// Result of a lookup of a frontend for a client.
pub(crate) enum Lookup<F: Tables> {
    /// No frontend, or one that is not for this client.
    NotAFrontend,
    /// A frontend that selected a backend; with its cell.
    Backend(Choice<F>, Cell),
    /// A frontend without a usable backend: the client is to get an error.
    Rejected,
    /// A frontend that has none for another reason: silence.
    Dropped(Counter),
}

/// The cell of the frontend with this key. Leaves the number of its service port in `service`.
#[inline(always)]
pub(crate) fn find_for<F: Tables>(key: FrontendKey<F>, service: &cell::Cell<u32>) -> Option<Cell> {
    let (index, cell) = find(key)?;
    service.set(service_of::<F>(index));
    Some(cell)
}

/// Selects one of the backends of a frontend, whose cell this is, for the client.
#[inline(always)]
pub(crate) fn select_in<F: Tables>(
    mut key: FrontendKey<F>,
    mut cell: Cell,
    client: &impl Client<F>,
) -> Lookup<F> {
    if cell.has(Cell::THIS_NODE_ONLY) && !client.is_on_this_node() {
        return Lookup::NotAFrontend;
    }
    if cell.has(Cell::RANGES) {
        let Some(address) = client.address() else {
            return Lookup::NotAFrontend;
        };
        if !in_ranges(key, cell, address) {
            return Lookup::Dropped(Counter::DropSourceRange);
        }
    }
    if cell.has(Cell::TWO_SETS) && client.is_on_this_node() {
        key.scope = FrontendKey::<F>::THIS_NODE;
        if let Some(other) = cell_of(key) {
            cell = other;
        }
    }
    if cell.has(Cell::DSR) && client.is_for_own() {
        key.scope = FrontendKey::<F>::THIS_NODE;
        if let Some(own) = cell_of(key)
            && has_backends(own)
        {
            cell = own;
        }
    }
    if !has_backends(cell) {
        return if cell.has(Cell::DROPS) {
            Lookup::Dropped(Counter::DropNoBackend)
        } else {
            Lookup::Rejected
        };
    }
    match choose(cell, client) {
        Chosen::Backend(choice) => Lookup::Backend(choice, cell),
        Chosen::Refused => Lookup::Rejected,
        Chosen::Elsewhere => Lookup::NotAFrontend,
        Chosen::Corrupt => Lookup::Dropped(Counter::DropCorrupt),
    }
}

/// Returns whether there is a backend to select with this cell.
#[inline(always)]
pub(crate) const fn has_backends(cell: Cell) -> bool {
    cell.count() > 0 && !cell.has(Cell::UNUSABLE)
}

/// The index of the frontend with this key.
#[inline(always)]
pub(crate) fn index_of<F: Tables>(key: FrontendKey<F>) -> Option<u32> {
    // SAFETY: an index is a word, written and replaced whole.
    unsafe { F::frontends().get(key) }.copied()
}

/// Returns whether there is a frontend with this key.
#[inline(always)]
pub(crate) fn is_one<F: Tables>(key: FrontendKey<F>) -> bool {
    index_of(key).is_some()
}

/// The cell of the frontend with this key.
#[inline(always)]
pub(crate) fn cell_of<F: Tables>(key: FrontendKey<F>) -> Option<Cell> {
    cell_at::<F>(index_of(key)?)
}

/// The index and the cell of the frontend with this key.
#[inline(always)]
pub(crate) fn find<F: Tables>(key: FrontendKey<F>) -> Option<(u32, Cell)> {
    let index = index_of(key)?;
    Some((index, cell_at::<F>(index)?))
}

/// The cell of the frontend with this index.
#[inline(always)]
pub(crate) fn cell_at<F: Tables>(frontend: u32) -> Option<Cell> {
    let word = F::cells().get_ptr(frontend)?;
    // SAFETY: the lookup gave a word of the table. The agent replaces it while we run; volatile,
    // so that it is read once: a slice's offset and count belong together.
    Some(Cell::from_word(unsafe { word.read_volatile() }))
}

/// Returns whether the client is in one of the frontend's source ranges.
#[inline(always)]
pub(crate) fn in_ranges<F: Tables>(key: FrontendKey<F>, cell: Cell, client: F::Address) -> bool {
    let range = SourceRange {
        frontend: key.scoped(u8::from(cell.has(Cell::SECOND_RANGES))),
        client,
    };
    F::source_ranges()
        .get(&LpmKey::new(SourceRange::<F>::BITS, range))
        .is_some()
}
