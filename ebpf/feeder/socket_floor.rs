//! Minimum cost of a program at `connect`, written by hand. For an address that is no service it
//! looks the address up in a kernel hash, and then whether the socket remembers a service that it
//! leaves. For a service it has the socket remember that, and puts a backend in its place.

use aya_ebpf::{
    Global,
    bindings::bpf_sock_addr,
    btf_maps::{HashMap, SkStorage},
    macros::{btf_map, cgroup_sock_addr},
    programs::SockAddrContext,
};
use shunt_common::{FrontendKey, V4, V6, socket::Connected};

/// Services of IPv4, none of which is asked for.
#[btf_map]
pub(crate) static SERVICES_V4: HashMap<FrontendKey<V4>, u32, 1024> = HashMap::new();

/// The same of IPv6.
#[btf_map]
pub(crate) static SERVICES_V6: HashMap<FrontendKey<V6>, u32, 1024> = HashMap::new();

/// Storage of sockets that remember nothing.
#[btf_map]
pub(crate) static REMEMBERED: SkStorage<u64> = SkStorage::new();

/// As long as what sockets remember of a service.
#[btf_map]
pub(crate) static REMEMBERED_SERVICES: SkStorage<Connected> = SkStorage::new();

/// The backend that stands for whatever is asked: its address, and then its port, network order.
#[unsafe(no_mangle)]
pub(crate) static STORED_BACKEND: Global<[u32; 2]> = Global::new([0; 2]);

/// Storage that is made for each socket, and another address; nothing is looked up.
#[cgroup_sock_addr(connect4)]
#[expect(
    clippy::needless_pass_by_value,
    reason = "the macro passes the context so"
)]
pub(crate) fn stored_connect4(context: SockAddrContext) -> i32 {
    // SAFETY: the context's socket is the kernel's, and there while the program runs.
    if unsafe { REMEMBERED_SERVICES.get_or_insert_ptr_mut(&context, None) }.is_null() {
        return 0;
    }
    let [address, port] = STORED_BACKEND.load();
    // SAFETY: the fields are writable in programs at `connect`.
    unsafe {
        (&raw mut (*context.sock_addr).user_ip4).write_volatile(address);
        (&raw mut (*context.sock_addr).user_port).write_volatile(port);
    }
    1
}

/// One hash lookup, of IPv4 sockets. An address that is a service fails, so that a bench sees it.
#[cgroup_sock_addr(connect4)]
#[expect(
    clippy::needless_pass_by_value,
    reason = "the macro passes the context so"
)]
pub(crate) fn lookup_connect4(context: SockAddrContext) -> i32 {
    i32::from(!is_service_v4(&context))
}

/// The same, of IPv6 sockets.
#[cgroup_sock_addr(connect6)]
#[expect(
    clippy::needless_pass_by_value,
    reason = "the macro passes the context so"
)]
pub(crate) fn lookup_connect6(context: SockAddrContext) -> i32 {
    i32::from(!is_service_v6(&context))
}

/// One hash lookup, and one of the socket's storage.
#[cgroup_sock_addr(connect4)]
#[expect(
    clippy::needless_pass_by_value,
    reason = "the macro passes the context so"
)]
pub(crate) fn floor_connect4(context: SockAddrContext) -> i32 {
    i32::from(!is_service_v4(&context) && !remembers(&context))
}

/// The same, of IPv6 sockets.
#[cgroup_sock_addr(connect6)]
#[expect(
    clippy::needless_pass_by_value,
    reason = "the macro passes the context so"
)]
pub(crate) fn floor_connect6(context: SockAddrContext) -> i32 {
    i32::from(!is_service_v6(&context) && !remembers(&context))
}

#[inline(always)]
fn is_service_v4(context: &SockAddrContext) -> bool {
    let (port, protocol) = port_and_protocol(context.sock_addr);
    // SAFETY: the field is readable in programs at `connect`.
    let address = unsafe { (&raw const (*context.sock_addr).user_ip4).read_volatile() };
    // SAFETY: only whether there is a value is looked at.
    unsafe { SERVICES_V4.get(FrontendKey::new(address, port, protocol)) }.is_some()
}

#[inline(always)]
fn is_service_v6(context: &SockAddrContext) -> bool {
    let (port, protocol) = port_and_protocol(context.sock_addr);
    let words = address_v6(context.sock_addr);
    // SAFETY: only whether there is a value is looked at.
    unsafe { SERVICES_V6.get(FrontendKey::new(words, port, protocol)) }.is_some()
}

#[inline(always)]
fn address_v6(context: *const bpf_sock_addr) -> [u32; 4] {
    // SAFETY: the field is readable in programs at `connect` of IPv6 sockets, word by word.
    unsafe {
        let words = (&raw const (*context).user_ip6).cast::<u32>();
        [0, 1, 2, 3].map(|index| words.add(index).read_volatile())
    }
}

#[inline(always)]
fn port_and_protocol(context: *const bpf_sock_addr) -> (u16, u8) {
    // SAFETY: the fields are readable in programs at `connect`.
    unsafe {
        (
            (&raw const (*context).user_port).read_volatile() as u16,
            (&raw const (*context).protocol).read_volatile() as u8,
        )
    }
}

#[inline(always)]
fn remembers(context: &SockAddrContext) -> bool {
    // SAFETY: the context's socket is the kernel's, and there while the program runs.
    !unsafe { REMEMBERED.get_ptr_mut(context) }.is_null()
}
