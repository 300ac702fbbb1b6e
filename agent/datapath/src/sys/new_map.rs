//! Making a table without the programs' object.

use std::{
    io,
    os::fd::{FromRawFd as _, OwnedFd},
};

use bytemuck::{Pod, Zeroable};

/// `BPF_MAP_CREATE` of `linux/bpf.h`.
const BPF_MAP_CREATE: libc::c_long = 0;

/// The part of `union bpf_attr` by which a table is made.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub(crate) struct NewMap {
    /// Its `BPF_MAP_TYPE_`.
    pub kind: u32,
    /// Sizes in bytes.
    pub key_size: u32,
    pub value_size: u32,
    /// Number of entries.
    pub count: u32,
    /// Its `BPF_F_`.
    pub flags: u32,
    /// The descriptor of a table as those in this one are; 0: it has none.
    pub inner: u32,
}

impl NewMap {
    /// Makes the table.
    ///
    /// # Errors
    ///
    /// If the kernel makes none: it needs `CAP_BPF`.
    pub(crate) fn create(&self) -> io::Result<OwnedFd> {
        // SAFETY: the kernel reads the attributes.
        let result = unsafe {
            libc::syscall(
                libc::SYS_bpf,
                BPF_MAP_CREATE,
                &raw const *self,
                size_of::<Self>(),
            )
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        let descriptor = i32::try_from(result).map_err(io::Error::other)?;
        // SAFETY: the call returns a file descriptor that has no other owner.
        Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
    }
}
