//! An iterator over the sockets that have storage in a map.

use std::{
    fs::File,
    io::{self, Read as _},
    os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd},
};

use aya_obj::generated::{
    bpf_attach_type::BPF_TRACE_ITER,
    bpf_cmd::{self, BPF_ITER_CREATE, BPF_LINK_CREATE},
};
use bytemuck::{NoUninit, Pod, Zeroable};

/// A link between a program and a map of kind `SkStorage` (Linux 5.9): what the program writes for
/// each of the map's sockets can be read as often as one likes.
#[derive(Debug)]
pub(crate) struct StorageIterator(OwnedFd);

/// The part of `union bpf_attr` that `BPF_LINK_CREATE` uses.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct LinkAttributes {
    prog_fd: u32,
    target_fd: u32,
    attach_type: u32,
    flags: u32,
    iter_info: u64,
    iter_info_len: u32,
    padding: u32,
}

/// The part of `union bpf_attr` that `BPF_ITER_CREATE` uses.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct IterAttributes {
    link_fd: u32,
    flags: u32,
}

impl StorageIterator {
    /// Links `program`, which is of the kind `iter/bpf_sk_storage_map`, with `map`.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub(crate) fn new(program: BorrowedFd<'_>, map: BorrowedFd<'_>) -> io::Result<Self> {
        // `union bpf_iter_link_info`: the kernel takes the rest of it for 0.
        let map = map.as_raw_fd().cast_unsigned();
        let attributes = LinkAttributes {
            prog_fd: program.as_raw_fd().cast_unsigned(),
            attach_type: BPF_TRACE_ITER as u32,
            iter_info: &raw const map as u64,
            iter_info_len: size_of_val(&map) as u32,
            ..LinkAttributes::zeroed()
        };
        // SAFETY: the one pointer is to a live value of the length that is said.
        unsafe { make(BPF_LINK_CREATE, &attributes) }.map(Self)
    }

    /// All that the program writes.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub(crate) fn read(&self) -> io::Result<Vec<u8>> {
        let attributes = IterAttributes {
            link_fd: self.0.as_raw_fd().cast_unsigned(),
            flags: 0,
        };
        // SAFETY: the attributes have no pointer.
        let iterator = unsafe { make(BPF_ITER_CREATE, &attributes) }?;
        let mut written = Vec::new();
        File::from(iterator).read_to_end(&mut written)?;
        Ok(written)
    }
}

/// Makes a call that gives a new file descriptor.
///
/// # Safety
///
/// The pointers in `attributes` are to live memory, as the command demands.
unsafe fn make<T: NoUninit>(command: bpf_cmd, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads the attributes, which are as long as is said, and what they point to.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command as libc::c_long,
            &raw const *attributes,
            size_of::<T>(),
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let descriptor = i32::try_from(result).map_err(io::Error::other)?;
    // SAFETY: the kernel has made the descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}
