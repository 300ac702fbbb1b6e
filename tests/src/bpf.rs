//! The kernel's call for BPF, without a library.

use std::{
    io,
    os::fd::{FromRawFd as _, OwnedFd, RawFd},
};

use nix::libc;

/// `BPF_PROG_LOAD` of `linux/bpf.h`.
const PROG_LOAD: libc::c_long = 5;

/// The part of `union bpf_attr` for loading a program.
#[repr(C)]
#[derive(Default)]
struct Attributes {
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
    interface: u32,
    attach_type: u32,
    btf: u32,
    function_size: u32,
    functions: u64,
    function_count: u32,
    line_size: u32,
    lines: u64,
    line_count: u32,
    target: u32,
}

/// A program that does nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Program<'a> {
    /// `BPF_PROG_TYPE_*`.
    pub(crate) kind: u32,
    /// At most 15 bytes.
    pub(crate) name: &'a str,
    /// The value that it returns.
    pub(crate) result: u32,
    /// `BPF_*` of its attachment, if its kind requires it; or else 0.
    pub(crate) attach_type: u32,
    /// The id in the kernel's BTF of the function that it attaches to; or else 0.
    pub(crate) target: u32,
}

impl Program<'_> {
    /// Loads it.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub(crate) fn load(&self) -> io::Result<OwnedFd> {
        let Self {
            kind,
            name,
            result,
            attach_type,
            target,
        } = *self;
        // `r0 = result; exit`.
        let instructions = [u64::from(result) << 32 | 0xb7, 0x95];
        let mut attributes = Attributes {
            kind,
            count: instructions.len() as u32,
            instructions: instructions.as_ptr().expose_provenance() as u64,
            license: c"GPL".as_ptr().expose_provenance() as u64,
            attach_type,
            target,
            ..Attributes::default()
        };
        attributes.name[..name.len()].copy_from_slice(name.as_bytes());
        bpf(PROG_LOAD, &mut attributes)
    }
}

/// Makes a call that returns a new descriptor. Pointers in the attributes are to memory that lives.
pub(crate) fn bpf<T>(command: libc::c_long, attributes: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads as many bytes as the size argument has, and the memory that they point at lives.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *attributes, size_of::<T>()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made it, for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(result as RawFd) })
}
