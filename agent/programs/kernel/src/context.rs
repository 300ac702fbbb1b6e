//! Contexts of programs: pointers to what a kernel would give them.

use core::ffi::c_void;

use crate::bindings::{__sk_buff, bpf_sock_addr, xdp_md};

/// A context, whatever the program's type.
pub trait EbpfContext {
    /// Returns its address.
    fn as_ptr(&self) -> *mut c_void;
}

/// A packet's.
#[derive(Debug)]
pub struct SkBuff {
    /// Its address.
    pub skb: *mut __sk_buff,
}

/// Of a TC program.
#[derive(Debug)]
pub struct TcContext {
    /// The packet's.
    pub skb: SkBuff,
}

impl TcContext {
    /// Of this packet.
    pub const fn new(skb: *mut __sk_buff) -> Self {
        Self {
            skb: SkBuff { skb },
        }
    }
}

/// Of an XDP program.
#[derive(Debug)]
pub struct XdpContext {
    /// Its address.
    pub ctx: *mut xdp_md,
}

impl XdpContext {
    /// Of this frame.
    pub const fn new(ctx: *mut xdp_md) -> Self {
        Self { ctx }
    }
}

/// Of a program at a system call.
#[derive(Debug)]
pub struct SockAddrContext {
    /// Its address.
    pub sock_addr: *mut bpf_sock_addr,
}

impl SockAddrContext {
    /// Of this call.
    pub const fn new(sock_addr: *mut bpf_sock_addr) -> Self {
        Self { sock_addr }
    }
}

impl EbpfContext for SockAddrContext {
    fn as_ptr(&self) -> *mut c_void {
        self.sock_addr.cast()
    }
}
