//! Devices on top of others: VLANs and bridges.

use std::{collections::BTreeSet, io};

use rtnetlink::packet_route::link::InfoKind;

use crate::netlink::links::{self, Link};

/// Returns the names of these interfaces, by index, each with those of the devices below it that its frames leave by: of a
/// VLAN's and of a bridge, on top of whatever else. To be called in the network namespace of the interfaces.
///
/// # Errors
///
/// If the kernel does not list them.
pub fn stacked_devices(interfaces: &BTreeSet<u32>) -> io::Result<Vec<(String, Vec<String>)>> {
    Ok(stacked_among(&links::list()?, interfaces))
}

fn stacked_among(links: &[Link], interfaces: &BTreeSet<u32>) -> Vec<(String, Vec<String>)> {
    let interfaces = links.iter().filter(|link| interfaces.contains(&link.index));
    interfaces
        .map(|link| {
            let below = below(links, link);
            (link.name.clone(), below)
        })
        .collect()
}

/// Returns the names of all devices below this one.
fn below(links: &[Link], top: &Link) -> Vec<String> {
    let mut known = BTreeSet::from([top.index]);
    let mut waiting = vec![top];
    let mut names = Vec::new();
    while let Some(upper) = waiting.pop() {
        for link in links {
            if is_right_below(link, upper) && known.insert(link.index) {
                names.push(link.name.clone());
                waiting.push(link);
            }
        }
    }
    names
}

fn is_right_below(link: &Link, upper: &Link) -> bool {
    match upper.kind {
        Some(InfoKind::Vlan) => upper.over == Some(link.index),
        Some(InfoKind::Bridge) => link.controller == Some(upper.index),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_below_vlans_and_bridges_are_found_on_top_of_whatever_else() {
        let vlan = |index, name, over| Link {
            kind: Some(InfoKind::Vlan),
            over: Some(over),
            ..Link::named(index, name)
        };
        let port = |index, name, controller| Link {
            controller: Some(controller),
            ..Link::named(index, name)
        };
        let of_kind = |index, name, kind| Link {
            kind: Some(kind),
            ..Link::named(index, name)
        };
        let links = [
            Link::named(1, "eth0"),
            vlan(2, "eth0.5", 1),
            of_kind(3, "br0", InfoKind::Bridge),
            port(4, "veth1", 3),
            port(5, "veth2", 3),
            vlan(6, "br0.7", 3),
            of_kind(7, "bond0", InfoKind::Bond),
            port(8, "eth1", 7),
            Link {
                kind: Some(InfoKind::MacVlan),
                over: Some(1),
                ..Link::named(9, "mac0")
            },
        ];
        let below = |index| {
            let found = stacked_among(&links, &BTreeSet::from([index]));
            let [(_, below)] = &found[..] else {
                panic!("{found:?}");
            };
            below.join(" ")
        };
        for (index, expected) in [
            (1, ""),
            (2, "eth0"),
            (3, "veth1 veth2"),
            (6, "br0 veth1 veth2"),
            (7, ""),
            (9, ""),
        ] {
            assert_eq!(below(index), expected, "of interface {index}");
        }
        let names = stacked_among(&links, &BTreeSet::from([2, 3, 77]));
        let names: Vec<_> = names.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["eth0.5", "br0"]);
    }

    #[test]
    fn what_is_below_itself_is_found_once() {
        let loops = |index, name, over| Link {
            kind: Some(InfoKind::Vlan),
            over: Some(over),
            ..Link::named(index, name)
        };
        let links = [loops(1, "a", 2), loops(2, "b", 1)];
        let found = stacked_among(&links, &BTreeSet::from([1]));
        assert_eq!(found, [("a".to_owned(), vec!["b".to_owned()])]);
    }
}
