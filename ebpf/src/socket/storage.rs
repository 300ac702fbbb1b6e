//! What a socket remembers, asked by others than its own process.

use core::ptr;

use aya_ebpf::{cty::c_void, helpers::generated::bpf_sk_storage_get};
use shunt_common::socket::Connected;

use crate::maps::sockets::SOCKETS_CONNECTED;

/// What the socket has in storage since it was connected to a frontend, or null.
///
/// # Safety
///
/// The kernel gave the socket to an iterator's program, which still runs.
#[inline(always)]
pub(crate) unsafe fn connected(socket: *mut c_void) -> *const Connected {
    let map = (&raw const SOCKETS_CONNECTED).cast_mut().cast();
    // SAFETY: as the caller says; nothing is to be made, so there is no value to begin with.
    unsafe { bpf_sk_storage_get(map, socket, ptr::null_mut(), 0) }.cast()
}
