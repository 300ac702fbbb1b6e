//! An XDP program of somebody else's, which passes every packet.

use std::{
    io,
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd},
};

use nix::libc;

/// `BPF_PROG_LOAD`, `BPF_LINK_CREATE`, `BPF_PROG_TYPE_XDP` and `BPF_XDP` of `linux/bpf.h`.
const PROG_LOAD: libc::c_long = 5;
const LINK_CREATE: libc::c_long = 28;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_TYPE_XDP: u32 = 37;

/// `r0 = XDP_PASS; exit`.
const INSTRUCTIONS: [u64; 2] = [2 << 32 | 0xb7, 0x95];

/// The part of `union bpf_attr` for loading a program.
#[repr(C)]
#[derive(Default)]
struct Load {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel: u32,
    flags: u32,
    name: [u8; 16],
}

/// The part of it for creating a link.
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
    /// What the program is called.
    pub const NAME: &str = "firewall";

    /// Attaches it to the interface with this index of the calling thread's network namespace.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn attach(interface: u32) -> io::Result<Self> {
        let mut load = Load {
            kind: PROG_TYPE_XDP,
            count: INSTRUCTIONS.len() as u32,
            instructions: INSTRUCTIONS.as_ptr().expose_provenance() as u64,
            license: c"GPL".as_ptr().expose_provenance() as u64,
            ..Load::default()
        };
        load.name[..Self::NAME.len()].copy_from_slice(Self::NAME.as_bytes());
        let program = bpf(PROG_LOAD, &mut load)?;
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

fn bpf<T>(command: libc::c_long, attributes: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads as many bytes as it is told, and what they point at lives.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *attributes, size_of::<T>()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made it, for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(result as RawFd) })
}
