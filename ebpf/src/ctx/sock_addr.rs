//! A system call of a process on a socket, with the address that it gives or is given.

use aya_ebpf::{
    EbpfContext as _,
    bindings::{bpf_sock, bpf_sock_addr, bpf_sock_tuple},
    helpers::{
        bpf_get_netns_cookie, bpf_set_retval, bpf_sk_lookup_tcp, bpf_sk_lookup_udp, bpf_sk_release,
    },
    programs::SockAddrContext,
};
use shunt_common::{
    TCP, UDP,
    socket::{Endpoint, Mapped},
};

/// Errors of `asm-generic/errno.h`, as system calls return them.
#[repr(i32)]
#[derive(Clone, Copy)]
pub(crate) enum Errno {
    TryAgain = -11,
    NoMemory = -12,
    Invalid = -22,
    AddressInUse = -98,
    ConnectionRefused = -111,
}

/// Outcome of the system call: the numbers that the kernel knows.
pub(crate) const GOES_ON: i32 = 1;
/// It fails, with `EPERM` unless another error was set.
pub(crate) const FAILS: i32 = 0;

/// `BPF_F_CURRENT_NETNS` of `linux/bpf.h`.
const OWN_NETNS: u64 = u64::MAX;

/// `TCP_ESTABLISHED` of `net/tcp_states.h`, which is the state of a connected UDP socket too.
const ESTABLISHED: u32 = 1;

/// A system call with an address, of an IPv6 socket if `SIX`.
pub(crate) struct SockAddr<const SIX: bool>(pub(crate) SockAddrContext);

impl<const SIX: bool> SockAddr<SIX> {
    #[inline(always)]
    const fn raw(&self) -> *mut bpf_sock_addr {
        self.0.sock_addr
    }

    /// The socket. The instruction is written by hand: of several loads the compiler would keep the
    /// field's address, and the verifier allows no load by another pointer than the context itself.
    #[cfg(target_arch = "bpf")]
    #[inline(always)]
    pub(crate) fn socket(&self) -> *const bpf_sock {
        let socket;
        // SAFETY: the kernel always gives a socket.
        unsafe {
            core::arch::asm!(
                "{socket} = *(u64 *)({context} + {field})",
                context = in(reg) self.raw(),
                field = const core::mem::offset_of!(bpf_sock_addr, __bindgen_anon_1),
                socket = out(reg) socket,
                options(pure, readonly, nostack),
            );
        }
        socket
    }

    #[cfg(not(target_arch = "bpf"))]
    pub(crate) fn socket(&self) -> *const bpf_sock {
        // SAFETY: the caller of the program gives a socket.
        unsafe { (*self.raw()).__bindgen_anon_1.sk }
    }

    /// The transport protocol by its IANA number, if it is one of those that are translated.
    #[inline(always)]
    pub(crate) fn protocol(&self) -> Option<u8> {
        // SAFETY: the field is readable in each of the programs.
        let protocol = unsafe { (&raw const (*self.raw()).protocol).read_volatile() };
        (protocol == u32::from(TCP) || protocol == u32::from(UDP)).then_some(protocol as u8)
    }

    /// Returns whether the socket is of the network namespace with this cookie.
    #[inline(always)]
    pub(crate) fn is_of(&self, namespace: u64) -> bool {
        // SAFETY: the context is the kernel's.
        (unsafe { bpf_get_netns_cookie(self.0.as_ptr()) }) == namespace
    }

    /// Returns whether a socket of the call's network namespace receives packets to the destination of `tuple`. Its first
    /// `size` bytes count: 12 of IPv4, 36 of IPv6.
    #[inline(always)]
    pub(crate) fn is_served(&self, tuple: &mut bpf_sock_tuple, size: u32, protocol: u8) -> bool {
        let context = self.0.as_ptr();
        // SAFETY: the context is the kernel's, and so is the socket, which is let go of before anything else.
        unsafe {
            let socket = if protocol == TCP {
                bpf_sk_lookup_tcp(context, tuple, size, OWN_NETNS, 0)
            } else {
                bpf_sk_lookup_udp(context, tuple, size, OWN_NETNS, 0)
            };
            if socket.is_null() {
                return false;
            }
            bpf_sk_release(socket.cast());
        }
        true
    }

    /// The address and port that the process gives, or is given.
    #[inline(always)]
    pub(crate) fn endpoint(&self) -> Endpoint {
        let raw = self.raw();
        // SAFETY: the fields are readable; word by word, as every kernel allows it.
        let (address, port) = unsafe {
            let address = if SIX {
                let words = &raw const (*raw).user_ip6;
                let word = |index: usize| words.cast::<u32>().add(index).read_volatile();
                Mapped::of_v6([word(0), word(1), word(2), word(3)])
            } else {
                Mapped::of_v4((&raw const (*raw).user_ip4).read_volatile())
            };
            (address, (&raw const (*raw).user_port).read_volatile())
        };
        Endpoint {
            address,
            port: port as u16,
        }
    }

    /// Puts another address and port in their place; for an IPv4 socket an IPv4 address.
    #[inline(always)]
    pub(crate) fn set_endpoint(&self, endpoint: &Endpoint) {
        let raw = self.raw();
        let address = endpoint.address.v6();
        // SAFETY: the fields are writable in each of the programs that call this.
        unsafe {
            if SIX {
                let words = (&raw mut (*raw).user_ip6).cast::<u32>();
                words.write_volatile(address[0]);
                words.add(1).write_volatile(address[1]);
                words.add(2).write_volatile(address[2]);
                words.add(3).write_volatile(address[3]);
            } else {
                (&raw mut (*raw).user_ip4).write_volatile(address[3]);
            }
            (&raw mut (*raw).user_port).write_volatile(endpoint.port.into());
        }
    }

    /// Returns whether the socket is connected: a UDP socket may lose its peer again.
    #[inline(always)]
    pub(crate) fn is_connected(&self) -> bool {
        // SAFETY: the socket is the kernel's, the field readable.
        (unsafe { (&raw const (*self.socket()).state).read_volatile() }) == ESTABLISHED
    }

    /// Returns the address and port that a connected socket is connected to.
    #[inline(always)]
    pub(crate) fn peer(&self) -> Endpoint {
        let socket = self.socket();
        // SAFETY: as in `is_connected`; an IPv6 socket has an IPv4 address in the mapped form.
        unsafe {
            let address = if SIX {
                let words = (&raw const (*socket).dst_ip6).cast::<u32>();
                let word = |index: usize| words.add(index).read_volatile();
                Mapped::of_v6([word(0), word(1), word(2), word(3)])
            } else {
                Mapped::of_v4((&raw const (*socket).dst_ip4).read_volatile())
            };
            let port = (&raw const (*socket).dst_port).read_volatile();
            Endpoint { address, port }
        }
    }

    /// The address that the socket is bound to, unspecified if it is to none.
    #[inline(always)]
    pub(crate) fn bound_v4(&self) -> u32 {
        // SAFETY: as in `is_connected`.
        unsafe { (&raw const (*self.socket()).src_ip4).read_volatile() }
    }

    /// The same of an IPv6 socket.
    #[inline(always)]
    pub(crate) fn bound_v6(&self) -> [u32; 4] {
        // SAFETY: as in `is_connected`.
        let words = unsafe { (&raw const (*self.socket()).src_ip6).cast::<u32>() };
        let word = |index: usize| {
            // SAFETY: one of four words.
            unsafe { words.add(index).read_volatile() }
        };
        [word(0), word(1), word(2), word(3)]
    }
}

/// The system call fails with this error: what the program is to return.
#[inline(always)]
pub(crate) fn fail(error: Errno) -> i32 {
    // SAFETY: the helper has no preconditions.
    unsafe { bpf_set_retval(error as i32) };
    FAILS
}
