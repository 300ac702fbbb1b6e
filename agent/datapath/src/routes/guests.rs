//! The networks of this host's pods and guests, by the routes to them.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use rtnetlink::packet_route::{
    link::InfoKind,
    route::{RouteAttribute, RouteType},
};

use crate::{
    netlink::links::Link,
    routes::{ask::Leads, borders::Routes},
};

/// Guests that a route out of an interface leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Behind {
    /// One guest: a network on such a pair may be one of the host itself, which is a guest itself then.
    Guest,
    /// Guests alone.
    Guests,
}

/// Returns the networks without a gateway that lead out of interfaces of pods and guests: each address that has a route
/// of its own out of a pair's end or a tap, and the networks of bridges whose ports are all of this kind.
pub(super) fn guests(routes: &Routes<Leads>, links: &[Link]) -> BTreeSet<IpNet> {
    let interfaces = interfaces(links);
    let routes = routes.values().flatten();
    let of_guests = routes.filter(|(prefix, leads)| {
        let is_single = prefix.prefix_len() == prefix.max_prefix_len();
        let is_to_guest = |leads: &(RouteType, Vec<RouteAttribute>)| {
            interface(leads).is_some_and(|interface| match interfaces.get(&interface) {
                Some(Behind::Guests) => prefix.prefix_len() > 0,
                Some(Behind::Guest) => is_single,
                None => false,
            })
        };
        leads.iter().all(is_to_guest)
    });
    of_guests.map(|(prefix, _)| *prefix).collect()
}

/// Returns the index of the interface by which a route leads to its destination itself.
fn interface((kind, says): &(RouteType, Vec<RouteAttribute>)) -> Option<u32> {
    let goes_by_another = says.iter().any(|attribute| {
        matches!(
            attribute,
            RouteAttribute::Gateway(_)
                | RouteAttribute::Via(_)
                | RouteAttribute::MultiPath(_)
                | RouteAttribute::NhId(_)
        )
    });
    let interface = says.iter().find_map(|attribute| match attribute {
        RouteAttribute::Oif(index) => Some(*index),
        _ => None,
    });
    interface.filter(|_| *kind == RouteType::Unicast && !goes_by_another)
}

fn interfaces(links: &[Link]) -> BTreeMap<u32, Behind> {
    let mut mixed = BTreeSet::new();
    for link in links {
        if let Some(bridge) = link.controller
            && !link.is_of_another_stack()
        {
            mixed.insert(bridge);
        }
    }
    let behind = links.iter().filter_map(|link| {
        let behind = if link.kind == Some(InfoKind::Bridge) && !mixed.contains(&link.index) {
            Behind::Guests
        } else if link.is_of_another_stack() {
            Behind::Guest
        } else {
            return None;
        };
        Some((link.index, behind))
    });
    behind.collect()
}

#[cfg(test)]
mod tests {
    use rtnetlink::packet_route::route::RouteAddress;

    use super::*;

    #[test]
    fn guests_are_behind_bridges_of_guests_and_at_the_other_ends_of_pairs() {
        let link = |index, kind, controller| Link {
            kind,
            controller,
            ..Link::named(index, "any")
        };
        let links = [
            link(2, None, None),
            link(3, Some(InfoKind::Veth), None),
            link(4, Some(InfoKind::Bridge), None),
            link(5, Some(InfoKind::Veth), Some(4)),
            link(6, Some(InfoKind::Bridge), None),
            link(7, Some(InfoKind::Tun), Some(6)),
            link(8, None, Some(6)),
        ];
        let by = |interface| vec![RouteAttribute::Oif(interface)];
        let mut via = by(3);
        let gateway = RouteAddress::Inet([10, 3, 0, 1].into());
        via.push(RouteAttribute::Gateway(gateway));
        let mut routes = Routes::<Leads>::new();
        for (prefix, says, expected) in [
            ("192.168.0.0/24", by(2), false),
            ("10.3.0.1/32", by(3), true),
            ("fd00::1/128", by(3), true),
            ("10.3.1.0/24", by(3), false),
            ("10.3.0.2/32", via, false),
            ("10.4.0.0/24", by(4), true),
            ("fd00:4::/64", by(4), true),
            ("0.0.0.0/0", by(4), false),
            ("10.6.0.0/24", by(6), false),
            ("10.7.0.0/24", by(9), false),
        ] {
            let prefix: IpNet = prefix.parse().unwrap();
            let leads = vec![(RouteType::Unicast, says)];
            routes.entry(254).or_default().insert(prefix, leads);
            let found = guests(&routes, &links);
            assert_eq!(found.contains(&prefix), expected, "{prefix}");
        }
    }
}
