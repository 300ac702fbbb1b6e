//! A bpf file system that nobody else sees: by its paths, the loader finds maps that are there already.

use std::{
    ffi::CStr,
    io,
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
    path::PathBuf,
    ptr,
};

/// Of `linux/mount.h`.
const FSCONFIG_CMD_CREATE: libc::c_uint = 6;
const FSMOUNT_CLOEXEC: libc::c_uint = 1;
const FSOPEN_CLOEXEC: libc::c_uint = 1;

/// What it is called in the kernel.
const KIND: &CStr = c"bpf";

/// The file system, mounted nowhere (`fsmount`, Linux 5.2). It is gone when this is, with all that is pinned there.
#[derive(Debug)]
pub(crate) struct PrivateBpffs(OwnedFd);

impl PrivateBpffs {
    /// Makes one.
    ///
    /// # Errors
    ///
    /// If the kernel refuses: it takes `CAP_SYS_ADMIN`.
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: the name is a string that outlives the call.
        let context = unsafe {
            descriptor(libc::syscall(
                libc::SYS_fsopen,
                KIND.as_ptr(),
                FSOPEN_CLOEXEC,
            ))
        }?;
        // SAFETY: this command has neither a key nor a value.
        let made = unsafe {
            libc::syscall(
                libc::SYS_fsconfig,
                context.as_raw_fd(),
                FSCONFIG_CMD_CREATE,
                ptr::null::<libc::c_char>(),
                ptr::null::<libc::c_void>(),
                0,
            )
        };
        if made < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: numbers alone.
        let mount = unsafe {
            descriptor(libc::syscall(
                libc::SYS_fsmount,
                context.as_raw_fd(),
                FSMOUNT_CLOEXEC,
                0,
            ))
        }?;
        Ok(Self(mount))
    }

    /// Where something of this name is, or is to be, for this process.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        format!("/proc/self/fd/{}/{name}", self.0.as_raw_fd()).into()
    }
}

/// The descriptor that a call has given.
///
/// # Safety
///
/// If it is one, the kernel has made it for us.
unsafe fn descriptor(result: libc::c_long) -> io::Result<OwnedFd> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let descriptor = i32::try_from(result).map_err(io::Error::other)?;
    // SAFETY: as the caller says.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}
