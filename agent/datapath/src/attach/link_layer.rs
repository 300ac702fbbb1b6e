//! The link-layer header before the network header of an interface's packets.

use libc::{
    ARPHRD_ETHER, ARPHRD_IPGRE, ARPHRD_LOOPBACK, ARPHRD_NONE, ARPHRD_PPP, ARPHRD_SIT,
    ARPHRD_TUNNEL, ARPHRD_TUNNEL6,
};

use crate::{error::LinkLayerError, sys::link_type::link_type};

/// `ARPHRD_RAWIP`, which the crate `libc` lacks.
const ARPHRD_RAWIP: u16 = 519;

/// Beginning of an interface's packets at our programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkLayer {
    /// With an Ethernet header.
    Ethernet,
    /// With the network header: tun, WireGuard, IP tunnels, PPP.
    None,
}

impl LinkLayer {
    /// That of the interface with this name, in the network namespace of the calling thread.
    ///
    /// # Errors
    ///
    /// If it is another one, or there is no such interface.
    pub(crate) fn of_interface(name: &str) -> Result<Self, LinkLayerError> {
        let kind = link_type(name)?;
        Self::of_type(kind).ok_or(LinkLayerError::Unknown(kind))
    }

    /// That of a link type, an `ARPHRD_` of `linux/if_arp.h`; `None` if it is another one.
    pub(crate) const fn of_type(kind: u16) -> Option<Self> {
        match kind {
            ARPHRD_ETHER | ARPHRD_LOOPBACK => Some(Self::Ethernet),
            ARPHRD_NONE | ARPHRD_TUNNEL | ARPHRD_TUNNEL6 | ARPHRD_SIT | ARPHRD_IPGRE
            | ARPHRD_PPP | ARPHRD_RAWIP => Some(Self::None),
            _ => None,
        }
    }
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
}
