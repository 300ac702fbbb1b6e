//! VLAN tags that an uplink's card takes off its frames before the XDP program sees them: frames of a VLAN would be
//! served as if they were the uplink's own.

use std::io;

use rtnetlink::packet_route::link::VlanProtocol;

use crate::{netlink::links::Link, sys::tag_stripping::strips_tags};

/// Returns why the XDP program cannot distinguish frames of a VLAN from the `uplink`'s own, if it cannot. `links`: all
/// interfaces.
pub(crate) fn lost(uplink: &Link, links: &[Link]) -> Option<String> {
    lost_as(uplink, links, strips_tags)
}

/// The same with a way to learn whether the interface of a name takes tags off.
fn lost_as(
    uplink: &Link,
    links: &[Link],
    strips: impl Fn(&str) -> io::Result<bool>,
) -> Option<String> {
    let vlans = links.iter().filter(|link| link.vlan.is_some());
    let mut above = vlans.filter(|vlan| is_above(vlan, uplink.index, links, links.len()));
    let first = above.clone().next()?;
    let (vlan, name) = (&first.name, &uplink.name);
    if let Some(vlan) = above.find(|link| link.vlan != Some(VlanProtocol::Ieee8021Q)) {
        let vlan = &vlan.name;
        return Some(format!(
            "frames of {vlan} may come without their tags, which are not of 802.1Q"
        ));
    }
    // A driver has the program of a bond in those of its ports.
    let cards = links
        .iter()
        .filter(|link| link.index == uplink.index || link.controller == Some(uplink.index));
    for card in cards {
        let card = &card.name;
        match strips(card) {
            Ok(false) => {}
            Ok(true) => {
                return Some(format!(
                    "frames of {vlan} come without their tags, as if they were of {name}; \
                     `ethtool -K {card} rxvlan off` leaves tags in frames"
                ));
            }
            Err(error) => {
                return Some(format!(
                    "frames of {vlan} may come without their tags: asking for the features of {card} failed: {error}"
                ));
            }
        }
    }
    None
}

/// Returns whether `link` is on top of the interface with this index, by at most so many steps.
fn is_above(link: &Link, index: u32, links: &[Link], steps: usize) -> bool {
    let Some(steps) = steps.checked_sub(1) else {
        return false;
    };
    let mut below = links
        .iter()
        .filter(|lower| link.over == Some(lower.index) || lower.controller == Some(link.index));
    below.any(|lower| lower.index == index || is_above(lower, index, links, steps))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vlan(index: u32, name: &str, over: u32, protocol: VlanProtocol) -> Link {
        Link {
            over: Some(over),
            vlan: Some(protocol),
            ..Link::named(index, name)
        }
    }

    #[test]
    fn tags_are_lost_where_a_vlan_is_on_top_of_a_card_that_takes_them_off() {
        let customer = |index, name, over| vlan(index, name, over, VlanProtocol::Ieee8021Q);
        let port = |index, name, controller| Link {
            controller: Some(controller),
            ..Link::named(index, name)
        };
        let links = [
            Link::named(1, "eth0"),
            customer(2, "eth0.5", 1),
            Link::named(3, "eth1"),
            vlan(4, "eth1.5", 3, VlanProtocol::Ieee8021Ad),
            Link::named(5, "bond0"),
            port(6, "port0", 5),
            port(7, "port1", 5),
            customer(8, "bond0.5", 5),
            Link::named(9, "eth2"),
            port(10, "eth3", 11),
            Link::named(11, "br0"),
            customer(12, "br0.5", 11),
            // On top of each other, as a kernel in another state than its list would have them.
            Link {
                over: Some(14),
                ..customer(13, "loop0", 14)
            },
            customer(14, "loop1", 13),
        ];
        for (uplink, stripping, reason) in [
            ("eth0", "", None),
            ("eth0", "eth0", Some("frames of eth0.5 come without")),
            ("eth0.5", "eth0.5", None),
            ("eth1", "", Some("frames of eth1.5 may come without")),
            ("bond0", "", None),
            ("bond0", "port1", Some("`ethtool -K port1 rxvlan off`")),
            ("eth2", "eth2", None),
            ("eth3", "eth3", Some("frames of br0.5 come without")),
            ("port0", "port0", Some("frames of bond0.5 come without")),
        ] {
            let link = links.iter().find(|link| link.name == uplink).unwrap();
            let lost = lost_as(link, &links, |name| Ok(name == stripping));
            let is_as_expected = match (&lost, reason) {
                (Some(lost), Some(reason)) => lost.contains(reason),
                (None, None) => true,
                _ => false,
            };
            assert!(is_as_expected, "{uplink}, {stripping}: {lost:?}");
        }
        let failing = lost_as(&links[0], &links, |_| Err(io::ErrorKind::Other.into()));
        assert!(failing.unwrap().contains("asking for the features of eth0"));
    }
}
