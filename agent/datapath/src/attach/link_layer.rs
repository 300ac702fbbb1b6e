//! What stands before the network header of an interface's packets.

use std::{io, mem, os::fd::AsRawFd as _, os::unix::net::UnixDatagram};

use libc::{
    ARPHRD_ETHER, ARPHRD_IPGRE, ARPHRD_LOOPBACK, ARPHRD_NONE, ARPHRD_PPP, ARPHRD_SIT,
    ARPHRD_TUNNEL, ARPHRD_TUNNEL6, IFNAMSIZ,
};
use thiserror::Error;

/// `ARPHRD_RAWIP`, which the crate `libc` lacks.
const ARPHRD_RAWIP: u16 = 519;

/// How an interface's packets begin, where our programs see them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkLayer {
    /// With an Ethernet header.
    Ethernet,
    /// With the network header: tun, WireGuard, IP tunnels, PPP.
    None,
}

/// The interface can have none of our programs.
#[derive(Debug, Error)]
pub enum LinkLayerError {
    /// Its type is neither.
    #[error(
        "it is of link type {0} (linux/if_arp.h): there are programs for Ethernet and for \
         interfaces without a link layer only"
    )]
    Unknown(u16),
    /// The kernel does not say.
    #[error("asking for its link type failed: {0}")]
    Unreadable(#[from] io::Error),
}

impl LinkLayer {
    /// That of the interface with this name, in the network namespace of the calling thread.
    ///
    /// # Errors
    ///
    /// If it is another one, or there is no such interface.
    pub fn of_interface(name: &str) -> Result<Self, LinkLayerError> {
        let kind = link_type(name)?;
        Self::of_type(kind).ok_or(LinkLayerError::Unknown(kind))
    }

    /// That of a link type, an `ARPHRD_` of `linux/if_arp.h`; `None` if it is another one.
    const fn of_type(kind: u16) -> Option<Self> {
        match kind {
            ARPHRD_ETHER | ARPHRD_LOOPBACK => Some(Self::Ethernet),
            ARPHRD_NONE | ARPHRD_TUNNEL | ARPHRD_TUNNEL6 | ARPHRD_SIT | ARPHRD_IPGRE
            | ARPHRD_PPP | ARPHRD_RAWIP => Some(Self::None),
            _ => None,
        }
    }
}

/// The interface's type. getifaddrs(3) does not say it of those without a link-layer address.
fn link_type(name: &str) -> io::Result<u16> {
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
    use super::*;

    #[test]
    fn a_link_type_says_what_packets_begin_with() {
        for (kind, layer) in [
            (1, Some(LinkLayer::Ethernet)),
            (772, Some(LinkLayer::Ethernet)),
            (65_534, Some(LinkLayer::None)),
            (768, Some(LinkLayer::None)),
            (769, Some(LinkLayer::None)),
            (776, Some(LinkLayer::None)),
            (778, Some(LinkLayer::None)),
            (512, Some(LinkLayer::None)),
            (519, Some(LinkLayer::None)),
            // InfiniBand, CAN, 802.11 as it is monitored.
            (32, None),
            (280, None),
            (803, None),
        ] {
            assert_eq!(LinkLayer::of_type(kind), layer, "{kind}");
        }
    }

    #[test]
    fn the_kernel_says_the_type_of_an_interface() {
        assert_eq!(link_type("lo").unwrap(), ARPHRD_LOOPBACK);
        link_type("no-such-thing").unwrap_err();
        link_type("a-name-that-is-too-long").unwrap_err();
    }
}
