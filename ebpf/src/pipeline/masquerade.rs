//! Masquerading of connections from outside to a backend on this node, if its frontend has that set.
//!
//! The backend then answers by this node's address, and so by this node, whatever other ways out it has. Its reply is
//! translated where it comes in. Where no program is, the node's own stack would get it: there the client's address
//! stays.

use aya_ebpf::bindings::{BPF_FIB_LKUP_RET_NO_NEIGH, BPF_FIB_LKUP_RET_SUCCESS};
use shunt_common::{Backend, Cell, Tuple};

use crate::{
    ctx::access::Access,
    forward::{
        fib::{self, Routed},
        stack::is_translated_behind,
    },
    maps::{backends::Choice, paths},
};

/// Returns the frontend's cell, without [`Cell::MASQUERADE`] if a connection to the backend of this index cannot be
/// masqueraded.
#[inline(always)]
pub(crate) fn settle<F: Routed>(context: &impl Access, backend: u32, cell: Cell) -> Cell {
    match is_behind_programs::<F>(context, backend) {
        Some(false) => cell.without(Cell::MASQUERADE),
        _ => cell,
    }
}

/// Returns whether packets to the backend of this index leave by an interface that has the programs; `None` if it is
/// on another node.
#[inline(always)]
fn is_behind_programs<F: Routed>(context: &impl Access, backend: u32) -> Option<bool> {
    let Choice { backend, .. } = Choice::<F>::at(backend)?;
    if backend.flags & Backend::<F>::LOCAL == 0 {
        return None;
    }
    let Some(source) = paths::source_to::<F>(&backend.address) else {
        return Some(false);
    };
    let to: Tuple<F> = Tuple {
        source,
        destination: backend.address,
        source_port: 0,
        destination_port: 0,
    };
    // No packet is too long for the question where it goes.
    let is_behind = match fib::look_up_for_all(context, &to, 1) {
        Ok((BPF_FIB_LKUP_RET_SUCCESS | BPF_FIB_LKUP_RET_NO_NEIGH, way)) => {
            is_translated_behind(way.ifindex)
        }
        _ => false,
    };
    Some(is_behind)
}
