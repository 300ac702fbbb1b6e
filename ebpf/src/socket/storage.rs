//! Memory of a socket, read by others than its own process.

use aya_ebpf::{btf_maps::SkStorage, cty::c_void};
use shunt_common::socket::{Connected, PairIn};

use crate::maps::{
    conntrack::Words,
    sockets::{SOCKETS_BEFORE, SOCKETS_CONNECTED, stored},
};

/// Returns the socket's entry in storage since it was connected to a frontend; `None` if it has none, or another
/// processor writes it.
///
/// # Safety
///
/// The kernel gave the socket to an iterator's program, which still runs.
#[inline(always)]
pub(crate) unsafe fn connected(socket: *mut c_void) -> Option<Connected> {
    // SAFETY: as the caller guarantees.
    unsafe { copy(&SOCKETS_CONNECTED, socket) }
}

/// Returns its entry of the frontend before, likewise.
///
/// # Safety
///
/// As for [`connected`].
#[inline(always)]
pub(crate) unsafe fn before(socket: *mut c_void) -> Option<Connected> {
    // SAFETY: as the caller guarantees.
    unsafe { copy(&SOCKETS_BEFORE, socket) }
}

/// # Safety
///
/// As for [`connected`].
#[inline(always)]
unsafe fn copy(table: &SkStorage<Connected>, socket: *mut c_void) -> Option<Connected> {
    // SAFETY: as the caller guarantees.
    let value = unsafe { stored(table, socket, 0) };
    if value.is_null() {
        return None;
    }
    PairIn::connected(Words::at(value.cast())).copy()
}
