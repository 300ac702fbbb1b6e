//! Another owner's XDP program, which passes every packet.

use std::{
    io,
    os::fd::{AsRawFd as _, OwnedFd},
};

use nix::libc;

use crate::bpf::{Program, bpf};

/// `BPF_LINK_CREATE`, `BPF_PROG_TYPE_XDP`, `BPF_XDP` and `XDP_PASS` of `linux/bpf.h`.
const LINK_CREATE: libc::c_long = 28;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_TYPE_XDP: u32 = 37;
const XDP_PASS: u32 = 2;

/// The part of `union bpf_attr` for creating a link.
#[repr(C)]
#[derive(Default)]
struct Create {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
}

/// The program on an interface, until it is dropped.
#[derive(Debug)]
pub struct ForeignXdp {
    _program: OwnedFd,
    _link: OwnedFd,
}

impl ForeignXdp {
    /// Name of the program.
    pub const NAME: &str = "firewall";

    /// Attaches it to the interface with this index of the calling thread's network namespace.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn attach(interface: u32) -> io::Result<Self> {
        let program = Program {
            kind: PROG_TYPE_XDP,
            name: Self::NAME,
            result: XDP_PASS,
            attach_type: 0,
            target: 0,
        };
        let program = program.load()?;
        let link = bpf(
            LINK_CREATE,
            &mut Create {
                program: program.as_raw_fd().cast_unsigned(),
                interface,
                attach_type: ATTACH_TYPE_XDP,
                flags: 0,
            },
        )?;
        Ok(Self {
            _program: program,
            _link: link,
        })
    }
}
