//! The interfaces at which a frame for another station is not for this node.
//!
//! An interface that listens to all of its link overhears such frames, and the stack drops them. At a port of a
//! bridge, they are the bridge's: for the bridge itself, or for what is behind another port.

use std::collections::BTreeSet;

use rtnetlink::packet_route::link::InfoPortKind;

use crate::netlink::links::Link;

/// Returns the indexes of those among `links`.
pub(crate) fn stations(links: &[Link]) -> BTreeSet<u32> {
    links
        .iter()
        .filter(|link| is_station(link))
        .map(|link| link.index)
        .collect()
}

/// Returns whether the stack judges frames by the interface's own address. A VRF leaves that to its ports.
const fn is_station(link: &Link) -> bool {
    match &link.port {
        None => link.controller.is_none(),
        Some(kind) => matches!(kind, InfoPortKind::Vrf),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_of_a_bridge_is_none() {
        let link = |index, controller, port| Link {
            controller,
            port,
            ..Link::named(index, "any")
        };
        let links = [
            link(1, None, None),
            link(2, Some(9), Some(InfoPortKind::Bridge)),
            link(3, Some(9), Some(InfoPortKind::Bond)),
            link(
                4,
                Some(9),
                Some(InfoPortKind::Other("openvswitch".to_owned())),
            ),
            link(5, Some(9), Some(InfoPortKind::Vrf)),
            link(6, Some(9), None),
        ];
        assert_eq!(stations(&links), BTreeSet::from([1, 5]));
    }
}
