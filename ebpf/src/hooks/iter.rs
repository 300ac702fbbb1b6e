//! A program that runs for each socket with storage, whenever the agent reads what it writes.

use aya_ebpf::{
    bindings::seq_file,
    cty::c_void,
    helpers::generated::{bpf_get_socket_cookie, bpf_seq_write},
};
use shunt_common::socket::Connected;

/// `struct bpf_iter__bpf_sk_storage_map` of `net/core/bpf_sk_storage.c`.
#[repr(C)]
pub(crate) struct Element {
    meta: *const Meta,
    map: *const c_void,
    socket: *mut c_void,
    value: *const c_void,
}

/// `struct bpf_iter_meta` of `include/linux/bpf.h`, as far as it is used.
#[repr(C)]
struct Meta {
    file: *mut seq_file,
}

/// Hook: the iterator over a map of kind `SkStorage` (Linux 5.9). Writes the cookie of each socket
/// and what it has in the map.
#[unsafe(link_section = "iter/bpf_sk_storage_map")]
#[unsafe(no_mangle)]
pub(crate) extern "C" fn sock_storage(element: *const Element) -> i32 {
    // SAFETY: the kernel gives a pointer to this structure, whose `meta` is never null.
    let (file, socket, value) =
        unsafe { ((*(*element).meta).file, (*element).socket, (*element).value) };
    // At the end there is neither.
    if socket.is_null() || value.is_null() {
        return 0;
    }
    // SAFETY: the socket is there while the program runs, and the value as long as the map says. If
    // the file has no room for both, the kernel takes the first back and runs the program again.
    unsafe {
        let cookie = bpf_get_socket_cookie(socket);
        bpf_seq_write(file, (&raw const cookie).cast(), size_of::<u64>() as u32);
        bpf_seq_write(file, value, size_of::<Connected>() as u32);
    }
    0
}
