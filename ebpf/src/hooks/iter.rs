//! A program that runs for each UDP socket when the agent reads the iterator. It writes the cookie of each
//! socket that has storage, and its value there. A socket that was connected anew is written twice.

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

/// Hook: the iterator over the UDP sockets of the network namespace of whoever reads (Linux 5.9).
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
    let value = unsafe { storage::connected(socket) };
    if value.is_null() {
        return 0;
    }
    // SAFETY: the socket is there while the program runs, and the value as long as the map says.
    unsafe { write(file, socket, value.cast()) };
    // SAFETY: as above.
    let value = unsafe { storage::before(socket) };
    if !value.is_null() {
        // SAFETY: as above.
        unsafe { write(file, socket, value.cast()) };
    }
    0
}

/// Writes the cookie of a socket and what it has in the map. If the file has no room for both, the
/// kernel takes the first back and runs the program again.
///
/// # Safety
///
/// The file and the socket are the kernel's, and there are a [`Connected`]'s bytes at `value`.
#[inline(always)]
unsafe fn write(file: *mut seq_file, socket: *mut c_void, value: *const c_void) {
    // SAFETY: as the caller says.
    unsafe {
        let cookie = bpf_get_socket_cookie(socket);
        bpf_seq_write(file, (&raw const cookie).cast(), size_of::<u64>() as u32);
        bpf_seq_write(file, value.cast_mut(), size_of::<Connected>() as u32);
    }
}
