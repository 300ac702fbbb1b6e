//! A pinned link of a cgroup: which cgroup it is of, and another program in its place.

use std::{
    io,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd},
    path::Path,
};

use aya_obj::generated::{bpf_cmd::BPF_LINK_UPDATE, bpf_link_type::BPF_LINK_TYPE_CGROUP};
use bytemuck::{Pod, Zeroable};

use crate::sys::kernel_object::{call, info, open};

/// A link of a cgroup.
#[derive(Debug)]
pub(crate) struct CgroupLink(OwnedFd);

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
        let link = Self(open(path)?);
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
        info(self.0.as_fd())
    }
}

impl From<CgroupLink> for OwnedFd {
    fn from(CgroupLink(link): CgroupLink) -> Self {
        link
    }
}
