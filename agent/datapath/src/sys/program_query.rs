//! The programs at a hook of an interface (`BPF_PROG_QUERY`, bpf(2)): aya's query knows TCX and not netkit.

use std::io;

use bytemuck::{Pod, Zeroable, bytes_of};

/// Of `linux/bpf.h`.
const BPF_PROG_QUERY: libc::c_long = 16;

/// The most programs that a hook may have, `BPF_MPROG_MAX` of linux/bpf_mprog.h.
const MOST: usize = 64;

/// A hook, by its `enum bpf_attach_type` of linux/bpf.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueriedHook {
    TcxIngress = 46,
    TcxEgress = 47,
    /// Of the device that is asked, as it transmits.
    NetkitPrimary = 54,
    /// Of its other end, as that transmits.
    NetkitPeer = 55,
}

/// The part of `union bpf_attr` that the query uses.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Attributes {
    interface: u32,
    attach_type: u32,
    query_flags: u32,
    attach_flags: u32,
    programs: u64,
    count: u32,
    padding: u32,
    program_attach_flags: u64,
    links: u64,
    link_attach_flags: u64,
    revision: u64,
}

const _: () = assert!(size_of::<Attributes>() == 64);

/// Returns the kernel's numbers of the programs at this hook of the interface with this index, in the order in which
/// they run. There are none where the kernel or the interface does not have the hook.
///
/// # Errors
///
/// If the kernel refuses: it needs `CAP_NET_ADMIN`.
pub(crate) fn programs_at(interface: u32, hook: QueriedHook) -> io::Result<Vec<u32>> {
    let mut programs = vec![0_u32; MOST];
    let mut attributes = Attributes {
        interface,
        attach_type: hook as u32,
        programs: programs.as_mut_ptr() as u64,
        count: programs.len() as u32,
        ..Attributes::zeroed()
    };
    let length = bytes_of(&attributes).len();
    // SAFETY: the kernel reads and writes the attributes, and as many words of `programs` as these have.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_QUERY, &raw mut attributes, length) };
    if result == 0 {
        programs.truncate(attributes.count as usize);
        return Ok(programs);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        // No program yet, no netkit device or the other end of one, an older kernel.
        Some(libc::ENOENT | libc::ENXIO | libc::EACCES | libc::EINVAL) => Ok(Vec::new()),
        _ => Err(error),
    }
}
