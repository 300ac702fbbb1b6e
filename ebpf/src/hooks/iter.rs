//! A program that runs for each UDP socket when the agent reads the iterator. It writes the cookie of each
//! socket that has storage, and its value there. A socket that was connected anew is written twice.
//!
//! Before Linux 6.5, the iterator does not lock the socket (`bpf_iter_udp_batch` of net/ipv4/udp.c): a process may
//! connect it meanwhile. A pair that is being written is left out, as it is of a backend that was just chosen.

use aya_ebpf::{
    bindings::seq_file,
    cty::c_void,
    helpers::generated::{bpf_get_socket_cookie, bpf_seq_write},
};
use shunt_common::socket::Connected;

use crate::socket::storage;

/// `struct bpf_iter_meta` of `include/linux/bpf.h`, as far as it is used.
#[repr(C)]
struct Meta {
    file: *mut seq_file,
}

/// `struct bpf_iter__udp` of `net/ipv4/udp.c`, as far as it is used.
#[repr(C)]
pub(crate) struct UdpElement {
    meta: *const Meta,
    socket: *mut c_void,
}

/// Hook: the iterator over the UDP sockets of the reader's network namespace (Linux 5.9).
#[unsafe(link_section = "iter/udp")]
#[unsafe(no_mangle)]
pub(crate) extern "C" fn sock_udp(element: *const UdpElement) -> i32 {
    // SAFETY: the kernel gives a pointer to this structure, whose `meta` is never null.
    let (file, socket) = unsafe { ((*(*element).meta).file, (*element).socket) };
    // At the end there is none.
    if socket.is_null() {
        return 0;
    }
    // SAFETY: the kernel's iterator gives the socket, and it is there while the program runs.
    let [connected, before] = unsafe { [storage::connected(socket), storage::before(socket)] };
    for pair in [connected, before].into_iter().flatten() {
        // SAFETY: the file is the kernel's, and the socket is there while the program runs.
        unsafe { write(file, socket, pair) };
    }
    0
}

/// An entry as the agent reads it.
#[repr(C)]
struct Entry {
    cookie: u64,
    connected: Connected,
}

/// Writes the cookie of a socket and a pair of its. If the file has no room for both, the kernel takes the
/// first back and runs the program again.
///
/// # Safety
///
/// The file and the socket are the kernel's.
#[inline(always)]
unsafe fn write(file: *mut seq_file, socket: *mut c_void, connected: Connected) {
    // SAFETY: as the caller guarantees.
    let cookie = unsafe { bpf_get_socket_cookie(socket) };
    let entry = Entry { cookie, connected };
    let entry = (&raw const entry).cast_mut().cast();
    // SAFETY: as the caller guarantees; the entry is there, and as long as it has to be.
    unsafe { bpf_seq_write(file, entry, size_of::<Entry>() as u32) };
}
