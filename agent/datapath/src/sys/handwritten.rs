//! Programs of a few instructions, written by hand, for what no system call of the kernel returns.

use std::{
    io,
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
};

use bytemuck::{Pod, Zeroable};

/// Of `linux/bpf.h`.
const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_PROG_TEST_RUN: libc::c_long = 10;
const BPF_PROG_TYPE_SCHED_CLS: u32 = 3;
/// A program that is run by a system call alone (Linux 5.14).
const BPF_PROG_TYPE_SYSCALL: u32 = 31;
/// A program of that type has to have it.
const BPF_F_SLEEPABLE: u32 = 1 << 4;

/// Input that a program is run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// On bytes that are its context.
    SystemCall,
    /// On bytes that are a packet at the loopback interface of the caller's network namespace.
    Packet,
}

/// A program, loaded.
#[derive(Debug)]
pub(crate) struct Handwritten {
    program: OwnedFd,
    kind: Kind,
}

/// A `struct bpf_insn` without an offset.
pub(crate) const fn instruction(code: u8, to: u8, from: u8, immediate: u32) -> u64 {
    code as u64 | (to as u64) << 8 | (from as u64) << 12 | (immediate as u64) << 32
}

/// The part of `union bpf_attr` that loading uses.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct LoadAttributes {
    kind: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
}

/// The part of it that a run uses.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct RunAttributes {
    program: u32,
    return_value: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    context_size_in: u32,
    context_size_out: u32,
    context_in: u64,
    context_out: u64,
}

const _: () = assert!(size_of::<LoadAttributes>() == 48 && size_of::<RunAttributes>() == 64);

impl Handwritten {
    /// Loads a program.
    ///
    /// # Errors
    ///
    /// If the kernel does not take it: it needs `CAP_BPF`.
    pub(crate) fn load(kind: Kind, instructions: &[u64]) -> io::Result<Self> {
        let (number, flags) = match kind {
            Kind::SystemCall => (BPF_PROG_TYPE_SYSCALL, BPF_F_SLEEPABLE),
            Kind::Packet => (BPF_PROG_TYPE_SCHED_CLS, 0),
        };
        let mut attributes = LoadAttributes {
            kind: number,
            instruction_count: instructions.len() as u32,
            instructions: instructions.as_ptr() as u64,
            license: c"Dual MIT/GPL".as_ptr() as u64,
            flags,
            ..LoadAttributes::zeroed()
        };
        let descriptor = call(BPF_PROG_LOAD, &mut attributes)?;
        let descriptor = i32::try_from(descriptor).map_err(io::Error::other)?;
        // SAFETY: the kernel has just made it for us.
        let program = unsafe { OwnedFd::from_raw_fd(descriptor) };
        Ok(Self { program, kind })
    }

    /// Its descriptor.
    #[cfg(test)]
    pub(crate) const fn descriptor(&self) -> &OwnedFd {
        &self.program
    }

    /// Runs it on these bytes, which are what it has made of them then. Returns its result.
    ///
    /// # Errors
    ///
    /// If the kernel does not run the program.
    pub(crate) fn run(&self, bytes: &mut [u8]) -> io::Result<i32> {
        let mut attributes = RunAttributes {
            program: self.program.as_raw_fd().cast_unsigned(),
            ..RunAttributes::zeroed()
        };
        let (address, length) = (bytes.as_mut_ptr() as u64, bytes.len() as u32);
        match self.kind {
            Kind::SystemCall => {
                attributes.context_size_in = length;
                // The kernel writes the context back where it came from.
                attributes.context_in = address;
            }
            Kind::Packet => {
                (attributes.data_size_in, attributes.data_size_out) = (length, length);
                (attributes.data_in, attributes.data_out) = (address, address);
            }
        }
        call(BPF_PROG_TEST_RUN, &mut attributes)?;
        Ok(attributes.return_value.cast_signed())
    }
}

fn call<T: Pod>(command: libc::c_long, attributes: &mut T) -> io::Result<libc::c_long> {
    // SAFETY: the kernel reads and writes the attributes, and what they point at: a program and
    // bytes that the caller holds, and a licence that is constant.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *attributes, size_of::<T>()) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
