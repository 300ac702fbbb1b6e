//! A pinned link of a cgroup: which cgroup it is of, and another program in its place.

use std::{
    ffi::CString,
    io,
    os::{
        fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
};

use aya_obj::generated::{
    bpf_cmd::{self, BPF_LINK_UPDATE, BPF_OBJ_GET, BPF_OBJ_GET_INFO_BY_FD},
    bpf_link_type::BPF_LINK_TYPE_CGROUP,
};
use bytemuck::{Pod, Zeroable};

/// A link of a cgroup.
#[derive(Debug)]
pub(crate) struct CgroupLink(OwnedFd);

/// The part of `union bpf_attr` of `BPF_OBJ_GET`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct ObjectAttributes {
    pathname: u64,
    bpf_fd: u32,
    file_flags: u32,
}

/// The part of `union bpf_attr` of `BPF_OBJ_GET_INFO_BY_FD`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct InfoAttributes {
    bpf_fd: u32,
    info_len: u32,
    info: u64,
}

/// The part of `union bpf_attr` of `BPF_LINK_UPDATE`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct UpdateAttributes {
    link_fd: u32,
    new_prog_fd: u32,
    flags: u32,
    old_prog_fd: u32,
}

/// `struct bpf_link_info` as far as it describes a link of a cgroup.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Info {
    kind: u32,
    id: u32,
    prog_id: u32,
    padding: u32,
    cgroup_id: u64,
    attach_type: u32,
    tail: u32,
}

const _: () = assert!(
    size_of::<Info>() == 32 && std::mem::offset_of!(Info, cgroup_id) == 16,
    "as in linux/bpf.h"
);

impl CgroupLink {
    /// The link that is pinned at `path`.
    ///
    /// # Errors
    ///
    /// If there is none, or it is no link of a cgroup (`InvalidInput`).
    pub(crate) fn from_pin(path: &Path) -> io::Result<Self> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        let mut attributes = ObjectAttributes {
            pathname: path.as_ptr() as u64,
            ..ObjectAttributes::zeroed()
        };
        // SAFETY: the path is a string that outlives the call.
        let fd = unsafe { call(BPF_OBJ_GET, &mut attributes) }?;
        // SAFETY: the kernel has made the descriptor for us.
        let link = Self(unsafe { OwnedFd::from_raw_fd(fd) });
        if link.info()?.kind == BPF_LINK_TYPE_CGROUP as u32 {
            Ok(link)
        } else {
            Err(io::ErrorKind::InvalidInput.into())
        }
    }

    /// The id of its cgroup, which is the inode of the cgroup's directory; `None` if the cgroup is
    /// gone (`bpf_cgroup_link_fill_link_info` in `kernel/bpf/cgroup.c`).
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub(crate) fn cgroup(&self) -> io::Result<Option<u64>> {
        let id = self.info()?.cgroup_id;
        Ok((id != 0).then_some(id))
    }

    /// Puts `program` in the place of the link's program, in one step (Linux 5.7).
    ///
    /// # Errors
    ///
    /// If the kernel refuses; with `ENOLINK` if the cgroup is gone (`cgroup_bpf_replace` in
    /// `kernel/bpf/cgroup.c`).
    pub(crate) fn replace_program(&self, program: BorrowedFd<'_>) -> io::Result<()> {
        let mut attributes = UpdateAttributes {
            link_fd: self.0.as_raw_fd().cast_unsigned(),
            new_prog_fd: program.as_raw_fd().cast_unsigned(),
            ..UpdateAttributes::zeroed()
        };
        // SAFETY: the attributes have no pointer.
        unsafe { call(BPF_LINK_UPDATE, &mut attributes) }.map(drop)
    }

    fn info(&self) -> io::Result<Info> {
        let mut info = Info::zeroed();
        let mut attributes = InfoAttributes {
            bpf_fd: self.0.as_raw_fd().cast_unsigned(),
            info_len: size_of::<Info>() as u32,
            info: &raw mut info as u64,
        };
        // SAFETY: the kernel writes at most as many bytes as are given, into a live value that may
        // have any.
        unsafe { call(BPF_OBJ_GET_INFO_BY_FD, &mut attributes) }?;
        Ok(info)
    }
}

/// Makes the call, and returns its result.
///
/// # Safety
///
/// The pointers in `attributes` are to live memory, as the command demands.
unsafe fn call<T: Pod>(command: bpf_cmd, attributes: &mut T) -> io::Result<i32> {
    // SAFETY: the kernel reads and writes the attributes, which are as long as is given, and what
    // they point to.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command as libc::c_long,
            &raw mut *attributes,
            size_of::<T>(),
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    i32::try_from(result).map_err(io::Error::other)
}
