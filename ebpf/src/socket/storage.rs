//! What a socket remembers, asked by others than its own process.

use aya_ebpf::cty::c_void;
use shunt_common::socket::Connected;

use crate::maps::sockets::{SOCKETS_BEFORE, SOCKETS_CONNECTED, stored};

/// What the socket has in storage since it was connected to a frontend, or null.
///
/// # Safety
///
/// The kernel gave the socket to an iterator's program, which still runs.
#[inline(always)]
pub(crate) unsafe fn connected(socket: *mut c_void) -> *const Connected {
    // SAFETY: as the caller says.
    unsafe { stored(&SOCKETS_CONNECTED, socket, 0) }
}

/// What it has of the frontend before, or null.
///
/// # Safety
///
/// As for [`connected`].
#[inline(always)]
pub(crate) unsafe fn before(socket: *mut c_void) -> *const Connected {
    // SAFETY: as the caller says.
    unsafe { stored(&SOCKETS_BEFORE, socket, 0) }
}
