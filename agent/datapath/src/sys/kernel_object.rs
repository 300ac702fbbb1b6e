//! A table, a program or a link of the kernel, whatever it is: its identity, its pins, its end (bpf(2)).

use std::{
    ffi::CString,
    io,
    os::{
        fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
};

use aya_obj::generated::bpf_cmd::{
    self, BPF_LINK_DETACH, BPF_OBJ_GET, BPF_OBJ_GET_INFO_BY_FD, BPF_OBJ_PIN,
};
use bytemuck::{Pod, Zeroable};

/// The part of `union bpf_attr` of `BPF_OBJ_GET` and `BPF_OBJ_PIN`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct PathAttributes {
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

/// The part of `union bpf_attr` of `BPF_LINK_DETACH`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct DetachAttributes {
    link_fd: u32,
}

/// The type of an object, and its number among those of its kind: `struct bpf_map_info`, `struct bpf_prog_info` and
/// `struct bpf_link_info` all begin with these.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
pub(crate) struct Identity {
    kind: u32,
    id: u32,
}

/// Returns the object that is pinned at `path`.
///
/// # Errors
///
/// If there is none.
pub(crate) fn open(path: &Path) -> io::Result<OwnedFd> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut attributes = PathAttributes {
        pathname: path.as_ptr() as u64,
        ..PathAttributes::zeroed()
    };
    // SAFETY: the path is a string that outlives the call.
    let fd = unsafe { call(BPF_OBJ_GET, &mut attributes) }?;
    // SAFETY: the kernel has made the descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Pins an object at `path`, where nothing may be.
///
/// # Errors
///
/// If something is there, or the directory is not on a bpffs.
pub(crate) fn pin(object: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut attributes = PathAttributes {
        pathname: path.as_ptr() as u64,
        bpf_fd: object.as_raw_fd().cast_unsigned(),
        ..PathAttributes::zeroed()
    };
    // SAFETY: the path is a string that outlives the call.
    unsafe { call(BPF_OBJ_PIN, &mut attributes) }.map(drop)
}

/// Returns the identity of an object: two descriptors of one have the same.
///
/// # Errors
///
/// If the kernel refuses.
pub(crate) fn identity(object: BorrowedFd<'_>) -> io::Result<Identity> {
    info(object)
}

/// Detaches a link, also if other descriptors and pins of it stay (Linux 5.9; of TCX as soon as there is TCX).
///
/// # Errors
///
/// If the kernel refuses.
pub(crate) fn detach(link: BorrowedFd<'_>) -> io::Result<()> {
    let mut attributes = DetachAttributes {
        link_fd: link.as_raw_fd().cast_unsigned(),
    };
    // SAFETY: the attributes have no pointer.
    unsafe { call(BPF_LINK_DETACH, &mut attributes) }.map(drop)
}

/// Returns the begin of the kernel's description of an object, as long as `T`.
///
/// # Errors
///
/// If the kernel refuses.
pub(super) fn info<T: Pod>(object: BorrowedFd<'_>) -> io::Result<T> {
    let mut info = T::zeroed();
    let mut attributes = InfoAttributes {
        bpf_fd: object.as_raw_fd().cast_unsigned(),
        info_len: size_of::<T>() as u32,
        info: &raw mut info as u64,
    };
    // SAFETY: the kernel writes at most as many bytes as are given, into a live value that may have any.
    unsafe { call(BPF_OBJ_GET_INFO_BY_FD, &mut attributes) }?;
    Ok(info)
}

/// Makes the call, and returns its result.
///
/// # Safety
///
/// The pointers in `attributes` are to live memory, as the command demands.
pub(super) unsafe fn call<T: Pod>(command: bpf_cmd, attributes: &mut T) -> io::Result<i32> {
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
