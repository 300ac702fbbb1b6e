//! Memory of sockets, in socket storage: it ends with its socket.

use core::ptr;

use aya_ebpf::{
    bindings::{BPF_SK_STORAGE_GET_F_CREATE, bpf_sock},
    btf_maps::SkStorage,
    cty::c_void,
    helpers::generated::bpf_sk_storage_get,
    macros::btf_map,
};
use shunt_common::socket::{Asked, Connected, PairIn, Pairs};

use crate::maps::conntrack::Words;

/// The frontend that a socket was connected to last, or none.
#[btf_map]
pub(crate) static SOCKETS_CONNECTED: SkStorage<Connected> = SkStorage::new();

/// The frontend that a UDP socket was connected to before that: it still is if the kernel refused the
/// last `connect`, after its program. A table of its own, as few sockets have any.
#[btf_map]
pub(crate) static SOCKETS_BEFORE: SkStorage<Connected> = SkStorage::new();

/// The frontends that a UDP socket asked without being connected. A socket with these is among those
/// of [`SOCKETS_CONNECTED`] too, so that one look is enough for a socket that never asked any.
#[btf_map]
pub(crate) static SOCKETS_ASKED: SkStorage<Asked> = SkStorage::new();

/// Returns a socket's entry in a table, or null. With [`BPF_SK_STORAGE_GET_F_CREATE`] among the `flags` it is
/// made if there is nothing, and null means that the kernel has no memory.
///
/// # Safety
///
/// The kernel gave the socket to the program, which still runs.
#[inline(always)]
pub(crate) unsafe fn stored<T>(table: &SkStorage<T>, socket: *mut c_void, flags: u32) -> *mut T {
    let map = (&raw const *table).cast_mut().cast();
    // SAFETY: as the caller guarantees; what is made begins with zeros.
    unsafe { bpf_sk_storage_get(map, socket, ptr::null_mut(), flags.into()) }.cast()
}

/// Returns the entry of a call's socket in a table.
#[inline(always)]
fn get<T>(table: &SkStorage<T>, socket: *const bpf_sock, flags: u32) -> Option<Words> {
    // SAFETY: the socket of a call is there while its program runs.
    let storage = unsafe { stored(table, socket.cast_mut().cast(), flags) };
    (!storage.is_null()).then(|| Words::at(storage.cast()))
}

/// The pair of a call's socket, if that ever asked a frontend.
#[inline(always)]
pub(crate) fn connected(socket: *const bpf_sock) -> Option<PairIn<Words>> {
    get(&SOCKETS_CONNECTED, socket, 0).map(PairIn::connected)
}

/// The same, made if there is none; `None` if the kernel has no memory.
#[inline(always)]
pub(crate) fn connected_new(socket: *const bpf_sock) -> Option<PairIn<Words>> {
    get(&SOCKETS_CONNECTED, socket, BPF_SK_STORAGE_GET_F_CREATE).map(PairIn::connected)
}

/// The pair before that one, if there was any.
#[inline(always)]
pub(crate) fn before(socket: *const bpf_sock) -> Option<PairIn<Words>> {
    get(&SOCKETS_BEFORE, socket, 0).map(PairIn::connected)
}

/// The same, made if there is none; `None` if the kernel has no memory.
#[inline(always)]
pub(crate) fn before_new(socket: *const bpf_sock) -> Option<PairIn<Words>> {
    get(&SOCKETS_BEFORE, socket, BPF_SK_STORAGE_GET_F_CREATE).map(PairIn::connected)
}

/// The pairs of a call's socket, if that ever asked a frontend without being connected.
#[inline(always)]
pub(crate) fn asked(socket: *const bpf_sock) -> Option<Pairs<Words>> {
    get(&SOCKETS_ASKED, socket, 0).map(Pairs)
}

/// The same, made if there are none; `None` if the kernel has no memory.
#[inline(always)]
pub(crate) fn asked_new(socket: *const bpf_sock) -> Option<Pairs<Words>> {
    connected_new(socket)?;
    get(&SOCKETS_ASKED, socket, BPF_SK_STORAGE_GET_F_CREATE).map(Pairs)
}
