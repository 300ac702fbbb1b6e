//! The kernel's number of a network namespace.

use std::{
    io,
    os::{fd::AsRawFd as _, unix::net::UnixDatagram},
};

/// The cookie of the network namespace of the calling thread (`SO_NETNS_COOKIE`, Linux 5.14): no
/// other namespace has it, nor will have it until the machine restarts.
pub(crate) fn netns_cookie() -> io::Result<u64> {
    // Any socket will do: it belongs to the namespace that it was made in.
    let socket = UnixDatagram::unbound()?;
    let mut cookie = 0u64;
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the kernel writes a u64, which is as long as is given, and its length.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NETNS_COOKIE,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_keeps_its_cookie() {
        let cookie = netns_cookie().unwrap();
        assert_ne!(cookie, 0);
        assert_eq!(netns_cookie().unwrap(), cookie);
    }
}
