//! The kernel's helpers that the programs call. Each does what its namesake of `bpf-helpers(7)` does with a
//! packet that is all linear and has whole checksums.

use core::{
    ffi::{c_int, c_long, c_void},
    ptr,
};

use crate::{
    bindings::{
        __sk_buff, BPF_F_MARK_MANGLED_0, BPF_SK_STORAGE_GET_F_CREATE, TC_ACT_REDIRECT,
        bpf_fib_lookup as FibLookup, bpf_redir_neigh, bpf_sock, bpf_sock_tuple,
        xdp_action::XDP_REDIRECT, xdp_md,
    },
    btf_maps,
    packet::{Bounds, ETHERNET},
    world::{Deed, How, ask, is_at_driver, link_length, note},
};

/// Helpers whose names the programs take from here.
pub mod generated {
    pub use super::{bpf_get_socket_cookie, bpf_seq_write, bpf_sk_storage_get};
}

/// `EINVAL` and `EOPNOTSUPP` of `asm-generic/errno.h`, as the kernel returns them.
const INVALID: c_long = -22;
const UNSUPPORTED: c_long = -95;

/// # Safety
///
/// None is needed.
pub unsafe fn bpf_ktime_get_ns() -> u64 {
    ask(|world| world.nanoseconds())
}

/// # Safety
///
/// None is needed.
pub unsafe fn bpf_jiffies64() -> u64 {
    ask(|world| world.ticks())
}

/// # Safety
///
/// None is needed.
pub unsafe fn bpf_get_prandom_u32() -> u32 {
    let drawn = ask(|world| world.random());
    note(Deed::Draw(drawn));
    drawn
}

/// The first one: processors are not distinguished here.
///
/// # Safety
///
/// None is needed.
pub const unsafe fn bpf_get_smp_processor_id() -> u32 {
    0
}

/// # Safety
///
/// `step` is an `extern "C" fn(u32, *mut c_void) -> c_long` that may be given `context`.
pub unsafe fn bpf_loop(count: u32, step: *mut c_void, context: *mut c_void, _: u64) -> c_long {
    type Step = extern "C" fn(u32, *mut c_void) -> c_long;
    // SAFETY: as the caller guarantees.
    let step = unsafe { core::mem::transmute::<*mut c_void, Step>(step) };
    for number in 0..count {
        if step(number, context) != 0 {
            return c_long::from(number) + 1;
        }
    }
    c_long::from(count)
}

/// A sum over 16-bit words, as the kernel has it on its way: 32 bits with a carry to be folded.
fn add(one: u32, other: u32) -> u32 {
    let (sum, carry) = one.overflowing_add(other);
    sum + u32::from(carry)
}

/// `csum_fold` of include/asm-generic/checksum.h.
fn fold(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

/// # Safety
///
/// A context of this thread's is at `skb`.
pub unsafe fn bpf_l4_csum_replace(
    skb: *mut __sk_buff,
    offset: u32,
    from: u64,
    to: u64,
    flags: u64,
) -> c_long {
    // SAFETY: as the caller guarantees.
    let mut packet = Bounds::of_skb(unsafe { &mut *skb });
    let offset = offset as usize;
    let Some(field) = packet.bytes().get_mut(offset..offset + 2) else {
        return INVALID;
    };
    let zero_is_none = flags & u64::from(BPF_F_MARK_MANGLED_0) != 0;
    let was = u16::from_ne_bytes([field[0], field[1]]);
    if from != 0 {
        return INVALID;
    }
    if zero_is_none && was == 0 {
        return 0;
    }
    let new = fold(add(to as u32, !u32::from(was)));
    let new = if zero_is_none && new == 0 { !0 } else { new };
    field.copy_from_slice(&new.to_ne_bytes());
    0
}

/// Always an error: no hardware has taken a sum over the packet.
///
/// # Safety
///
/// None is needed.
pub unsafe fn bpf_csum_update(_: *mut __sk_buff, _: u32) -> c_long {
    UNSUPPORTED
}

/// # Safety
///
/// A context of this thread's is at `skb`, and there is room for so many bytes at `to`.
pub unsafe fn bpf_skb_load_bytes(
    skb: *const c_void,
    offset: u32,
    to: *mut c_void,
    count: u32,
) -> c_long {
    // SAFETY: as the caller guarantees.
    let packet = Bounds::of_skb(unsafe { &mut *skb.cast_mut().cast::<__sk_buff>() });
    // SAFETY: as the caller guarantees.
    unsafe { load(packet, offset, to, count) }
}

/// # Safety
///
/// A context of this thread's is at `xdp`, and there is room for so many bytes at `to`.
pub unsafe fn bpf_xdp_load_bytes(
    xdp: *mut xdp_md,
    offset: u32,
    to: *mut c_void,
    count: u32,
) -> c_long {
    // SAFETY: as the caller guarantees.
    let packet = Bounds::of_xdp(unsafe { &mut *xdp });
    // SAFETY: as the caller guarantees.
    unsafe { load(packet, offset, to, count) }
}

/// # Safety
///
/// There is room for so many bytes at `to`.
unsafe fn load(mut packet: Bounds<'_>, offset: u32, to: *mut c_void, count: u32) -> c_long {
    let (begin, count) = (offset as usize, count as usize);
    let Some(bytes) = packet.bytes().get(begin..begin + count) else {
        return INVALID;
    };
    // SAFETY: as the caller guarantees.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast(), count) };
    0
}

/// Nothing is to be done: the packet is linear.
///
/// # Safety
///
/// None is needed.
pub unsafe fn bpf_skb_pull_data(_: *mut __sk_buff, _: u32) -> c_long {
    0
}

/// # Safety
///
/// A context of this thread's is at `skb`.
pub unsafe fn bpf_skb_change_tail(skb: *mut __sk_buff, length: u32, _: u64) -> c_long {
    // SAFETY: as the caller guarantees.
    let skb = unsafe { &mut *skb };
    let shortest = link_length() as u32;
    if length < shortest || !Bounds::of_skb(skb).set_length(length as usize) {
        return INVALID;
    }
    skb.len = length;
    0
}

/// # Safety
///
/// A context of this thread's is at `skb`.
pub unsafe fn bpf_skb_change_head(skb: *mut __sk_buff, length: u32, _: u64) -> c_long {
    // SAFETY: as the caller guarantees.
    let skb = unsafe { &mut *skb };
    let mut packet = Bounds::of_skb(skb);
    if !packet.move_begin(-(length as i32)) {
        return INVALID;
    }
    packet.bytes()[..length as usize].fill(0);
    skb.len += length;
    0
}

/// Between the link's header and the network's.
///
/// # Safety
///
/// A context of this thread's is at `skb`.
pub unsafe fn bpf_skb_adjust_room(skb: *mut __sk_buff, change: i32, _: u32, _: u64) -> c_long {
    // SAFETY: as the caller guarantees.
    let skb = unsafe { &mut *skb };
    let link = link_length();
    let mut packet = Bounds::of_skb(skb);
    let by = change.unsigned_abs() as usize;
    if change < 0 && packet.len() < link + by {
        return INVALID;
    }
    if change >= 0 {
        if !packet.move_begin(-change) {
            return INVALID;
        }
        packet.bytes().copy_within(by..by + link, 0);
        packet.bytes()[link..link + by].fill(0);
    } else {
        packet.bytes().copy_within(..link, by);
        if !packet.move_begin(-change) {
            return INVALID;
        }
    }
    skb.len = skb.len.wrapping_add_signed(change);
    0
}

/// # Safety
///
/// A context of this thread's is at `xdp`.
pub unsafe fn bpf_xdp_adjust_head(xdp: *mut xdp_md, change: c_int) -> c_long {
    // SAFETY: as the caller guarantees.
    let mut frame = Bounds::of_xdp(unsafe { &mut *xdp });
    let is_long_enough = frame.len() as i64 - i64::from(change) >= ETHERNET as i64;
    if !is_long_enough || !frame.move_begin(change) {
        return INVALID;
    }
    if let Ok(new @ 1..) = usize::try_from(-change) {
        // At a driver, the bytes from before remain there; no program may depend on them.
        frame.bytes()[..new].fill(0);
    }
    0
}

/// # Safety
///
/// A context of this thread's is at `xdp`.
pub unsafe fn bpf_xdp_adjust_tail(xdp: *mut xdp_md, change: c_int) -> c_long {
    // SAFETY: as the caller guarantees.
    let mut frame = Bounds::of_xdp(unsafe { &mut *xdp });
    match frame.len().checked_add_signed(change as isize) {
        Some(length @ ETHERNET..) if frame.set_length(length) => 0,
        _ => INVALID,
    }
}

/// # Safety
///
/// None is needed.
pub unsafe fn bpf_redirect(interface: u32, _: u64) -> c_long {
    send(interface, How::AsItIs)
}

/// # Safety
///
/// None is needed.
pub unsafe fn bpf_redirect_peer(interface: u32, _: u64) -> c_long {
    send(interface, How::ToPeer)
}

/// # Safety
///
/// None is needed.
pub unsafe fn bpf_redirect_neigh(
    interface: u32,
    _: *mut bpf_redir_neigh,
    _: c_int,
    _: u64,
) -> c_long {
    send(interface, How::ToNeighbour)
}

fn send(interface: u32, how: How) -> c_long {
    note(Deed::Send { interface, how });
    if is_at_driver() {
        XDP_REDIRECT.into()
    } else {
        TC_ACT_REDIRECT.into()
    }
}

/// # Safety
///
/// A route's question is at `lookup`.
pub unsafe fn bpf_fib_lookup(_: *mut c_void, lookup: *mut FibLookup, _: c_int, _: u32) -> c_long {
    // SAFETY: as the caller guarantees.
    let lookup = unsafe { &mut *lookup };
    // SAFETY: words, of which an IPv4 address is the first.
    let words = unsafe { lookup.__bindgen_anon_4.ipv6_dst };
    let words = if lookup.family == 2 {
        &words[..1]
    } else {
        &words[..]
    };
    let destination = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let answer = ask(|world| world.route(lookup));
    note(Deed::Route {
        destination,
        answer,
        interface: lookup.ifindex,
    });
    answer
}

/// # Safety
///
/// None is needed.
pub unsafe fn bpf_get_netns_cookie(_: *mut c_void) -> u64 {
    ask(|world| world.namespace())
}

/// A socket that no program may look into, or null.
///
/// # Safety
///
/// None is needed.
pub unsafe fn bpf_sk_lookup_tcp(
    _: *mut c_void,
    _: *mut bpf_sock_tuple,
    _: u32,
    _: u64,
    _: u64,
) -> *mut bpf_sock {
    if ask(|world| world.is_served()) {
        ptr::dangling_mut()
    } else {
        ptr::null_mut()
    }
}

/// As [`bpf_sk_lookup_tcp`].
///
/// # Safety
///
/// None is needed.
pub unsafe fn bpf_sk_lookup_udp(
    context: *mut c_void,
    tuple: *mut bpf_sock_tuple,
    size: u32,
    namespace: u64,
    flags: u64,
) -> *mut bpf_sock {
    // SAFETY: as the caller guarantees.
    unsafe { bpf_sk_lookup_tcp(context, tuple, size, namespace, flags) }
}

/// # Safety
///
/// None is needed: the socket is not looked into.
pub unsafe fn bpf_sk_release(_: *mut c_void) -> c_long {
    0
}

/// # Safety
///
/// None is needed.
pub unsafe fn bpf_set_retval(error: c_int) -> c_int {
    note(Deed::Fail(error));
    0
}

/// # Safety
///
/// A [`btf_maps::SkStorage`] is at `table`.
pub unsafe fn bpf_sk_storage_get(
    table: *mut c_void,
    socket: *mut c_void,
    _: *mut c_void,
    flags: u64,
) -> *mut c_void {
    let creates = flags & u64::from(BPF_SK_STORAGE_GET_F_CREATE) != 0;
    // SAFETY: as the caller guarantees.
    unsafe { btf_maps::storage(table, socket, creates) }
}

/// Sockets are distinguished by their addresses.
///
/// # Safety
///
/// None is needed.
pub unsafe fn bpf_get_socket_cookie(socket: *mut c_void) -> u64 {
    socket as u64
}

/// Iterators do not run here.
///
/// # Safety
///
/// None is needed.
pub unsafe fn bpf_seq_write<T>(_: *mut T, _: *const c_void, _: u32) -> c_long {
    UNSUPPORTED
}
