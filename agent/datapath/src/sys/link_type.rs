//! The link type of an interface (netdevice(7)).

use std::{io, mem, os::fd::AsRawFd as _, os::unix::net::UnixDatagram};

use libc::IFNAMSIZ;

/// Returns an interface's type, an `ARPHRD_` of `linux/if_arp.h`. getifaddrs(3) omits it without a link-layer address.
pub(crate) fn link_type(name: &str) -> io::Result<u16> {
    // Any socket will do.
    let socket = UnixDatagram::unbound()?;
    // SAFETY: all bits 0 are an empty name and an address of no family.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    // The last byte ends the name.
    if name.len() >= IFNAMSIZ {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    // SAFETY: the kernel reads the name and writes the address (netdevice(7)).
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFHWADDR, &raw mut request) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is this member that the call has written; its family is the interface's type.
    Ok(unsafe { request.ifr_ifru.ifru_hwaddr.sa_family })
}

#[cfg(test)]
mod tests {
    use libc::ARPHRD_LOOPBACK;

    use super::*;

    #[test]
    fn the_kernel_says_the_type_of_an_interface() {
        assert_eq!(link_type("lo").unwrap(), ARPHRD_LOOPBACK);
        link_type("no-such-thing").unwrap_err();
        link_type("a-name-that-is-too-long").unwrap_err();
    }
}
