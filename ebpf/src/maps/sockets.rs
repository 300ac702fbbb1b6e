//! What sockets remember, in socket storage: it ends with its socket.

use aya_ebpf::{btf_maps::SkStorage, macros::btf_map, programs::SockAddrContext};
use shunt_common::socket::{Asked, Connected, PairIn, Pairs};

use crate::maps::conntrack::Words;

/// The frontend that a socket is connected to, or none.
#[btf_map]
pub(crate) static SOCKETS_CONNECTED: SkStorage<Connected> = SkStorage::new();

/// The frontends that a UDP socket asked without being connected. A socket with these is among those
/// of [`SOCKETS_CONNECTED`] too, so that one look is enough for a socket that never asked any.
#[btf_map]
pub(crate) static SOCKETS_ASKED: SkStorage<Asked> = SkStorage::new();

/// The pair of the context's socket, if it ever asked a frontend.
#[inline(always)]
pub(crate) fn connected(context: &SockAddrContext) -> Option<PairIn<Words>> {
    // SAFETY: the context's socket is the kernel's, and there while the program runs.
    let storage = unsafe { SOCKETS_CONNECTED.get_ptr_mut(context) };
    (!storage.is_null()).then(|| PairIn::connected(Words::at(storage.cast())))
}

/// The same, made if there is none; `None` if the kernel has no memory.
#[inline(always)]
pub(crate) fn connected_new(context: &SockAddrContext) -> Option<PairIn<Words>> {
    // SAFETY: as in `connected`.
    let storage = unsafe { SOCKETS_CONNECTED.get_or_insert_ptr_mut(context, None) };
    (!storage.is_null()).then(|| PairIn::connected(Words::at(storage.cast())))
}

/// The pairs of the context's socket, if it ever asked a frontend without being connected.
#[inline(always)]
pub(crate) fn asked(context: &SockAddrContext) -> Option<Pairs<Words>> {
    // SAFETY: as in `connected`.
    let storage = unsafe { SOCKETS_ASKED.get_ptr_mut(context) };
    (!storage.is_null()).then(|| Pairs(Words::at(storage.cast())))
}

/// The same, made if there are none; `None` if the kernel has no memory.
#[inline(always)]
pub(crate) fn asked_new(context: &SockAddrContext) -> Option<Pairs<Words>> {
    connected_new(context)?;
    // SAFETY: as in `connected`.
    let storage = unsafe { SOCKETS_ASKED.get_or_insert_ptr_mut(context, None) };
    (!storage.is_null()).then(|| Pairs(Words::at(storage.cast())))
}
