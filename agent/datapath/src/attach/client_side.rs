//! By which interfaces packets of clients come in: what `auto` takes.
//!
//! | interface | taken | since |
//! |---|---|---|
//! | a real one, a VLAN's, the host's end of a pod's pair | yes | clients are behind it |
//! | a tunnel's (VXLAN, Geneve, IPIP, SIT, WireGuard, GRE with a remote, xfrm) | yes | clients, and replies to what SNAT sent into it, come out of it |
//! | a bridge | yes | frames for the node come to it that no port of it takes for its own |
//! | a pair's end, or a tap, that is a bridge's port | yes | a pod or a guest is behind it, whose replies may never reach the bridge |
//! | any other port of a bridge | no | frames that only pass the bridge are not the node's, the others the bridge sees |
//! | a port of a bond or a team | no | the bond sees its packets |
//! | a VRF's interface | no | its ports see its packets |
//! | loopback, dummy, IFB | no | no client's packet comes in there, or it has come in elsewhere before |
//! | GRE without a remote, while it is up | yes | it is shown with the reason for which it has no programs; a kernel with GRE has such an interface in each network namespace, which is down |
//! | one of a link layer that the programs do not know | no | they could not read it |

use libc::{ARPHRD_LOOPBACK, IFF_UP};
use rtnetlink::packet_route::link::{InfoKind, InfoPortKind};

use crate::{attach::link_layer::LinkLayer, error::LinkLayerError, netlink::links::Link};

/// The kind that Open vSwitch's interfaces, and its ports, have.
const OPEN_VSWITCH: &str = "openvswitch";

/// Returns whether packets of clients come in by it, and are to be translated there.
pub(crate) fn is_client_side(link: &Link) -> bool {
    let is_readable = match LinkLayer::of_link(link) {
        Ok(_) => link.layer != ARPHRD_LOOPBACK,
        Err(LinkLayerError::OuterHeader) => link.flags & IFF_UP.cast_unsigned() != 0,
        Err(LinkLayerError::Unknown(_) | LinkLayerError::Unreadable(_)) => false,
    };
    let is_entry = !matches!(
        link.kind,
        Some(InfoKind::Dummy | InfoKind::Ifb | InfoKind::Nlmon | InfoKind::Vrf)
    );
    is_readable && is_entry && is_no_mere_port(link)
}

/// Returns whether its packets are not better seen at what it is a port of.
fn is_no_mere_port(link: &Link) -> bool {
    match &link.port {
        Some(InfoPortKind::Bond | InfoPortKind::Team) => false,
        Some(InfoPortKind::Bridge) => link.is_of_another_stack(),
        Some(InfoPortKind::Other(kind)) => kind != OPEN_VSWITCH || link.is_of_another_stack(),
        // A VRF's ports see its packets.
        None | Some(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use libc::{ARPHRD_ETHER, ARPHRD_IPGRE, ARPHRD_NONE, ARPHRD_TUNNEL};

    use super::*;

    /// InfiniBand.
    const UNKNOWN: u16 = 32;

    fn link(layer: u16, kind: Option<InfoKind>, port: Option<InfoPortKind>) -> Link {
        Link {
            layer,
            kind,
            controller: port.as_ref().map(|_| 8),
            port,
            ..Link::named(7, "any")
        }
    }

    #[test]
    fn gre_without_a_remote_is_taken_while_it_is_up_so_that_the_status_shows_it() {
        let gre = |flags: i32| Link {
            flags: flags.cast_unsigned(),
            has_outer_header: true,
            ..link(ARPHRD_IPGRE, Some(InfoKind::GreTun), None)
        };
        assert!(is_client_side(&gre(IFF_UP)));
        assert!(!is_client_side(&gre(0)), "`gre0` of a kernel with GRE");
        let with_remote = link(ARPHRD_IPGRE, Some(InfoKind::GreTun), None);
        assert!(is_client_side(&with_remote));
    }

    #[test]
    fn each_kind_of_interface_is_taken_where_clients_packets_come_in() {
        use InfoKind::{
            Bond, Bridge, Dummy, Geneve, Ifb, IpIp, MacVlan, Netkit, Tun, Veth, Vlan, Vrf, Vxlan,
            Wireguard,
        };
        use InfoPortKind as Port;
        let open_vswitch = || Port::Other(OPEN_VSWITCH.to_owned());
        let other = || InfoKind::Other("rocket".to_owned());
        for (layer, kind, port, taken) in [
            (ARPHRD_ETHER, None, None, true),
            (ARPHRD_ETHER, Some(Veth), None, true),
            (ARPHRD_ETHER, Some(Netkit), None, true),
            (ARPHRD_ETHER, Some(Vlan), None, true),
            (ARPHRD_ETHER, Some(MacVlan), None, true),
            (ARPHRD_ETHER, Some(Vxlan), None, true),
            (ARPHRD_ETHER, Some(Geneve), None, true),
            (ARPHRD_ETHER, Some(Bridge), None, true),
            (ARPHRD_ETHER, Some(Bond), None, true),
            (ARPHRD_ETHER, Some(other()), None, true),
            (ARPHRD_NONE, Some(Wireguard), None, true),
            (ARPHRD_TUNNEL, Some(IpIp), None, true),
            (ARPHRD_LOOPBACK, None, None, false),
            (ARPHRD_ETHER, Some(Dummy), None, false),
            (ARPHRD_ETHER, Some(Ifb), None, false),
            (ARPHRD_ETHER, Some(Vrf), None, false),
            (UNKNOWN, None, None, false),
            (ARPHRD_ETHER, Some(Veth), Some(Port::Bridge), true),
            (ARPHRD_ETHER, Some(Netkit), Some(Port::Bridge), true),
            (ARPHRD_ETHER, Some(Tun), Some(Port::Bridge), true),
            (ARPHRD_ETHER, None, Some(Port::Bridge), false),
            (ARPHRD_ETHER, Some(Vxlan), Some(Port::Bridge), false),
            (ARPHRD_ETHER, Some(Veth), Some(open_vswitch()), true),
            (ARPHRD_ETHER, None, Some(open_vswitch()), false),
            (ARPHRD_ETHER, None, Some(Port::Bond), false),
            (ARPHRD_ETHER, None, Some(Port::Team), false),
            (ARPHRD_ETHER, None, Some(Port::Vrf), true),
        ] {
            let link = link(layer, kind, port);
            assert_eq!(is_client_side(&link), taken, "{link:?}");
        }
    }
}
