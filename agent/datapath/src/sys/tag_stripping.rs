//! Check whether an interface takes VLAN tags off frames before any program sees them (ethtool(8), `rx-vlan-offload`).

use std::{
    io, mem,
    os::{fd::AsRawFd as _, unix::net::UnixDatagram},
};

use libc::IFNAMSIZ;

/// `ETHTOOL_GFLAGS` and `ETH_FLAG_RXVLAN` of `linux/ethtool.h`.
const GET_FLAGS: u32 = 0x25;
const RX_VLAN: u32 = 1 << 8;

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// Returns whether the interface with this name takes off tags of 802.1Q.
pub(crate) fn strips_tags(name: &str) -> io::Result<bool> {
    // Any socket will do.
    let socket = UnixDatagram::unbound()?;
    let mut value = Value {
        command: GET_FLAGS,
        data: 0,
    };
    // SAFETY: all bits 0 are an empty name and a null pointer.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    // The last byte ends the name.
    if name.len() >= IFNAMSIZ {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: the kernel reads the name and the command, and writes the value, which is there until the call ends.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(value.data & RX_VLAN != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_what_an_interface_does_with_tags() {
        assert!(!strips_tags("lo").unwrap());
        strips_tags("no-such-thing").unwrap_err();
        strips_tags("a-name-that-is-too-long").unwrap_err();
    }
}
