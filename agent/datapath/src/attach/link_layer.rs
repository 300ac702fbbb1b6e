//! The link-layer header before the network header of an interface's packets.

use libc::{
    ARPHRD_ETHER, ARPHRD_IPGRE, ARPHRD_LOOPBACK, ARPHRD_NONE, ARPHRD_PPP, ARPHRD_SIT,
    ARPHRD_TUNNEL, ARPHRD_TUNNEL6,
};

use crate::{
    error::LinkLayerError,
    netlink::links::{self, Link},
    sys::link_type::link_type,
};

/// `ARPHRD_RAWIP`, which the crate `libc` lacks.
const ARPHRD_RAWIP: u16 = 519;

/// `ARPHRD_IP6GRE`, which the crate `libc` lacks.
const ARPHRD_IP6GRE: u16 = 823;

/// Beginning of an interface's packets at our programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkLayer {
    /// With an Ethernet header.
    Ethernet,
    /// With the network header: tun, WireGuard, IP tunnels, GRE with a remote, PPP.
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
        // Of these alone the type is not enough, so that no other interface depends on the longer answer.
        if matches!(kind, ARPHRD_IPGRE | ARPHRD_IP6GRE) {
            return Self::of_link(&links::of_name(name)?);
        }
        Self::of_type(kind).ok_or(LinkLayerError::Unknown(kind))
    }

    /// That of a listed interface.
    ///
    /// # Errors
    ///
    /// If it is another one.
    pub(crate) fn of_link(link: &Link) -> Result<Self, LinkLayerError> {
        if link.has_outer_header {
            return Err(LinkLayerError::OuterHeader);
        }
        Self::of_type(link.layer).ok_or(LinkLayerError::Unknown(link.layer))
    }

    /// That of a link type, an `ARPHRD_` of `linux/if_arp.h`; `None` if it is another one.
    const fn of_type(kind: u16) -> Option<Self> {
        match kind {
            ARPHRD_ETHER | ARPHRD_LOOPBACK => Some(Self::Ethernet),
            ARPHRD_NONE | ARPHRD_TUNNEL | ARPHRD_TUNNEL6 | ARPHRD_SIT | ARPHRD_IPGRE
            | ARPHRD_IP6GRE | ARPHRD_PPP | ARPHRD_RAWIP => Some(Self::None),
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
            (823, Some(LinkLayer::None)),
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
    fn a_tunnel_whose_packets_begin_with_its_own_header_has_no_programs() {
        for layer in [ARPHRD_IPGRE, ARPHRD_IP6GRE] {
            let link = |has_outer_header| Link {
                layer,
                has_outer_header,
                ..Link::named(7, "gre1")
            };
            assert_eq!(LinkLayer::of_link(&link(false)).unwrap(), LinkLayer::None);
            let refused = LinkLayer::of_link(&link(true)).unwrap_err();
            assert!(matches!(refused, LinkLayerError::OuterHeader), "{refused}");
        }
    }

    #[test]
    fn the_loopback_interface_is_read_by_its_name() {
        let lo = links::of_name("lo").unwrap();
        assert_eq!(
            (lo.index, LinkLayer::of_link(&lo).unwrap()),
            (1, LinkLayer::Ethernet)
        );
        links::of_name("no-such-thing").unwrap_err();
    }
}
