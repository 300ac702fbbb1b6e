//! `BPF_PROG_TEST_RUN` with a flag that aya's has not.

use std::{
    io,
    os::fd::{AsRawFd as _, BorrowedFd},
    time::Duration,
};

use nix::libc;

/// The kernel's sum over the packet, as from an interface that computed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sum {
    /// It has none (`CHECKSUM_NONE`).
    Unknown,
    /// It has (`CHECKSUM_COMPLETE`), and checks after the run that it is still the packet's.
    Known,
}

/// `BPF_PROG_TEST_RUN` of `linux/bpf.h`.
const TEST_RUN: libc::c_long = 10;
/// `BPF_F_TEST_SKB_CHECKSUM_COMPLETE` of `linux/bpf.h`, Linux 6.17.
const CHECKSUM_COMPLETE: u32 = 1 << 2;

/// The part of `union bpf_attr` for a test run.
#[repr(C)]
#[derive(Default)]
struct Attributes {
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
    flags: u32,
    cpu: u32,
    batch_size: u32,
    padding: u32,
}

/// Result for a frame.
pub(crate) struct Ran {
    pub return_value: i32,
    pub frame: Vec<u8>,
    pub duration: Duration,
}

/// Runs the program on the frame, with this begin of a `struct __sk_buff` as its context.
///
/// # Errors
///
/// `EBADMSG` if the sum was known and is not the packet's any more; `EINVAL` for what the kernel
/// does not run.
pub(crate) fn test_run(
    program: BorrowedFd<'_>,
    frame: &[u8],
    context: &[u8],
    sum: Sum,
) -> io::Result<Ran> {
    let mut output = vec![0; frame.len() + 256];
    let mut attributes = Attributes {
        program: program.as_raw_fd().cast_unsigned(),
        data_size_in: frame.len() as u32,
        data_size_out: output.len() as u32,
        data_in: frame.as_ptr().expose_provenance() as u64,
        data_out: output.as_mut_ptr().expose_provenance() as u64,
        repeat: 1,
        flags: match sum {
            Sum::Unknown => 0,
            Sum::Known => CHECKSUM_COMPLETE,
        },
        ..Attributes::default()
    };
    if !context.is_empty() {
        attributes.context_size_in = context.len() as u32;
        attributes.context_in = context.as_ptr().expose_provenance() as u64;
    }
    // SAFETY: the kernel reads and writes the attributes and the two buffers within their lengths.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            TEST_RUN,
            &raw mut attributes,
            size_of::<Attributes>(),
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    output.truncate(attributes.data_size_out as usize);
    Ok(Ran {
        return_value: attributes.return_value.cast_signed(),
        frame: output,
        duration: Duration::from_nanos(attributes.duration.into()),
    })
}
