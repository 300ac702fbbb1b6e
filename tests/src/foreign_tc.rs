//! Another owner's TC program, which drops every packet.

use std::{
    io,
    os::fd::{AsRawFd as _, OwnedFd},
};

use nix::libc;

use crate::bpf::{Program, bpf};

/// `BPF_LINK_CREATE`, `BPF_PROG_TYPE_SCHED_CLS` and `TCX_DROP` of `linux/bpf.h`.
const LINK_CREATE: libc::c_long = 28;
const PROG_TYPE_SCHED_CLS: u32 = 3;
const TCX_DROP: u32 = 2;

/// Hook of an interface, as `linux/bpf.h` numbers it (`BPF_TCX_INGRESS`, `BPF_TCX_EGRESS`): since Linux 6.6.
#[derive(Debug, Clone, Copy)]
pub enum TcxHook {
    /// Packets that come in by the interface.
    Ingress = 46,
    /// Packets that leave by it.
    Egress = 47,
}

/// The part of `union bpf_attr` for creating a link.
#[repr(C)]
#[derive(Default)]
struct Create {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
    relative: u32,
    padding: u32,
    revision: u64,
}

/// The program on an interface, after all others at its hook, until it is dropped.
#[derive(Debug)]
pub struct ForeignTc {
    _program: OwnedFd,
    _link: OwnedFd,
}

impl ForeignTc {
    /// Attaches it to the interface with this index of the calling thread's network namespace.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn attach(interface: u32, hook: TcxHook) -> io::Result<Self> {
        let program = Program {
            kind: PROG_TYPE_SCHED_CLS,
            name: "policy",
            result: TCX_DROP,
            attach_type: 0,
            target: 0,
        };
        let program = program.load()?;
        let link = bpf(
            LINK_CREATE,
            &mut Create {
                program: program.as_raw_fd().cast_unsigned(),
                interface,
                attach_type: hook as u32,
                ..Create::default()
            },
        )?;
        Ok(Self {
            _program: program,
            _link: link,
        })
    }
}
