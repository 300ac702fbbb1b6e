//! Sockets of other processes.

use std::{
    io,
    os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd},
};

/// A descriptor of another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Descriptor {
    /// The process, by its number in the calling one's process namespace.
    pub(crate) process: i32,
    /// Its number there.
    pub(crate) number: RawFd,
}

/// Duplicates a descriptor of another process into the calling one (`pidfd_open`, Linux 5.3; `pidfd_getfd`,
/// Linux 5.6).
///
/// # Errors
///
/// `ESRCH` or `EBADF` if the process or its descriptor is gone; `EPERM` if the calling one may not trace that
/// process (`PTRACE_MODE_ATTACH_REALCREDS` of ptrace(2), which takes `CAP_SYS_PTRACE`).
pub(crate) fn duplicate(descriptor: Descriptor) -> io::Result<OwnedFd> {
    let Descriptor { process, number } = descriptor;
    // SAFETY: the call takes numbers alone.
    let process = unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) };
    let process = owned(process)?;
    // SAFETY: likewise.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0) })
}

/// Returns the number that no other socket of the machine ever had (`SO_COOKIE`, Linux 4.12).
///
/// # Errors
///
/// If the descriptor is of no socket.
pub(crate) fn cookie(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let mut cookie = 0u64;
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the kernel writes a u64, which is as long as is given, and its length.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut length,
        )
    };
    if result == 0 {
        Ok(cookie)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Takes the descriptor that a system call has returned.
fn owned(result: libc::c_long) -> io::Result<OwnedFd> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let descriptor = RawFd::try_from(result).map_err(io::Error::other)?;
    // SAFETY: the kernel has made the descriptor for the caller.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

#[cfg(test)]
mod tests {
    use std::{net::UdpSocket, os::fd::AsFd as _, process};

    use super::*;

    #[test]
    fn a_duplicate_is_the_same_socket() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let own = |number| Descriptor {
            process: process::id().cast_signed(),
            number,
        };
        let duplicate_of = |number| duplicate(own(number));
        let again = duplicate_of(socket.as_raw_fd()).unwrap();
        assert_eq!(
            cookie(again.as_fd()).unwrap(),
            cookie(socket.as_fd()).unwrap()
        );
        let other = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_ne!(
            cookie(again.as_fd()).unwrap(),
            cookie(other.as_fd()).unwrap()
        );
        let error = duplicate_of(RawFd::MAX).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EBADF));
    }
}
