//! Questions to the kernel about routes and rules.

use std::{fmt, io, net::IpAddr};

use ipnet::IpNet;
use nix::net::if_::if_indextoname;
use rtnetlink::packet_route::{
    AddressFamily, RouteNetlinkMessage,
    route::{RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteType},
    rule::{RuleAttribute, RuleMessage},
};

use crate::{
    netlink::dump::{Found, dump, dump_strictly, get},
    routes::{borders::Routes, way::Way},
};

/// `RT_TABLE_LOCAL` of linux/rtnetlink.h: this host's own addresses.
const LOCAL: u32 = 255;

/// An address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

impl Family {
    const fn number(self) -> AddressFamily {
        match self {
            Self::V4 => AddressFamily::Inet,
            Self::V6 => AddressFamily::Inet6,
        }
    }

    /// Returns the prefixes at which ways may differ, whatever the routes are: the address that IPv6 prefers is one of
    /// the destination's kind (RFC 6724 section 5, rules 2 and 6).
    pub(super) fn prefixes(self) -> impl Iterator<Item = IpNet> {
        let prefixes: &[&str] = match self {
            Self::V4 => &["0.0.0.0/0"],
            Self::V6 => &["::/0", "2000::/3", "fc00::/7"],
        };
        prefixes.iter().filter_map(|prefix| prefix.parse().ok())
    }
}

/// Routes of one prefix: their kinds, and their attributes.
pub(super) type Leads = Vec<(RouteType, Vec<RouteAttribute>)>;

/// The routes to other hosts, of all tables.
#[derive(Debug, Default)]
pub(super) struct Listed {
    pub(super) routes: Routes<Leads>,
    /// True if some hold for some sources only (IPv6's `from`).
    pub(super) are_by_source: bool,
}

/// Returns the routes of a family.
///
/// # Errors
///
/// If there are more than `most`, or the kernel does not list them.
pub(super) fn routes(family: Family, most: usize) -> io::Result<Listed> {
    let mut request = RouteMessage::default();
    request.header.address_family = family.number();
    let (mut found, mut count) = (Listed::default(), 0);
    let request = RouteNetlinkMessage::GetRoute(request);
    let listed = dump_strictly(
        request,
        |_| true,
        |message| {
            let RouteNetlinkMessage::NewRoute(route) = message else {
                return Found::Nothing;
            };
            count += 1;
            if count > most {
                return Found::Behind;
            }
            let is_by_source = route.header.source_prefix_length > 0;
            let Some(route) = read(route) else {
                return Found::Nothing;
            };
            found.are_by_source |= is_by_source;
            Found::Item(route)
        },
    );
    for (table, prefix, kind, says) in listed?.items {
        let table = found.routes.entry(table).or_default();
        table.entry(prefix).or_default().push((kind, says));
    }
    if count > most {
        return Err(io::Error::other(format!("there are more than {most}")));
    }
    Ok(found)
}

/// Reads a route, if it leads to other hosts.
fn read(route: RouteMessage) -> Option<(u32, IpNet, RouteType, Vec<RouteAttribute>)> {
    let RouteHeader {
        address_family,
        destination_prefix_length,
        table,
        kind,
        ..
    } = route.header;
    let mut table = u32::from(table);
    let mut address: IpAddr = match address_family {
        AddressFamily::Inet => IpAddr::from([0; 4]),
        AddressFamily::Inet6 => IpAddr::from([0; 16]),
        _ => return None,
    };
    let mut says = Vec::new();
    for attribute in route.attributes {
        match attribute {
            RouteAttribute::Destination(RouteAddress::Inet(ip)) => address = ip.into(),
            RouteAttribute::Destination(RouteAddress::Inet6(ip)) => address = ip.into(),
            RouteAttribute::Table(number) => table = number,
            RouteAttribute::Metrics(_)
            | RouteAttribute::MultiPath(_)
            | RouteAttribute::Gateway(_)
            | RouteAttribute::PrefSource(_)
            | RouteAttribute::Via(_)
            | RouteAttribute::Oif(_)
            | RouteAttribute::NhId(_) => says.push(attribute),
            _ => {}
        }
    }
    let is_cloned = address_family == AddressFamily::Inet6 && kind == RouteType::Local;
    let prefix = IpNet::new(address, destination_prefix_length).ok()?;
    (table != LOCAL && !is_cloned).then_some((table, prefix.trunc(), kind, says))
}

/// The rules by which the kernel chooses a table of routes.
#[derive(Debug, Default)]
pub(super) struct Rules {
    /// The prefixes of destinations that they name.
    pub(super) destinations: Vec<IpNet>,
    /// True if some depend on what differs between a backend's packet and the same from its frontend.
    pub(super) are_by_sender: bool,
}

/// Returns the rules of a family.
///
/// # Errors
///
/// If the kernel does not list them.
pub(super) fn rules(family: Family) -> io::Result<Rules> {
    let mut request = RuleMessage::default();
    request.header.family = family.number();
    let listed = dump(
        RouteNetlinkMessage::GetRule(request),
        |message| match message {
            RouteNetlinkMessage::NewRule(rule) => Some(rule),
            _ => None,
        },
    )?;
    let destinations = listed.items.iter().filter_map(destination);
    Ok(Rules {
        destinations: destinations.collect(),
        are_by_sender: !listed.unread.is_empty() || listed.items.iter().any(is_by_sender),
    })
}

fn destination(rule: &RuleMessage) -> Option<IpNet> {
    let length = rule.header.dst_len;
    rule.attributes
        .iter()
        .find_map(|attribute| match attribute {
            RuleAttribute::Destination(ip) => Some(IpNet::new(*ip, length).ok()?.trunc()),
            _ => None,
        })
}

/// Returns whether a rule selects packets by their source, by a mark, which may come from the source, or by their source
/// port.
fn is_by_sender(rule: &RuleMessage) -> bool {
    rule.attributes.iter().any(|attribute| match attribute {
        RuleAttribute::Source(_) | RuleAttribute::SourcePortRange(_) => true,
        RuleAttribute::FwMark(word) | RuleAttribute::FwMask(word) => *word != 0,
        _ => false,
    })
}

/// Returns the index and the name of the interface by which packets of this host's own to `address` leave; `None` if
/// none do: the address is this host's, or there is no route.
pub fn interface_to(address: IpAddr) -> Option<(u32, String)> {
    let index = interface(&route_to(address)?)?;
    let name = if_indextoname(index).ok()?;
    Some((index, name.into_string().ok()?))
}

/// The index of the interface to which a route to another host leads.
fn interface(route: &RouteMessage) -> Option<u32> {
    if route.header.kind != RouteType::Unicast {
        return None;
    }
    route
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            RouteAttribute::Oif(index) => Some(*index),
            _ => None,
        })
}

/// Asks for the way of a packet of this host's own to `address`. If there is none, nothing is known of it.
pub(super) fn ask(address: IpAddr) -> Way {
    let Some(route) = route_to(address) else {
        return Way::default();
    };
    let (mut way, mut is_learned) = (Way::default(), false);
    for attribute in &route.attributes {
        match attribute {
            RouteAttribute::PrefSource(RouteAddress::Inet(ip)) => way.source = Some((*ip).into()),
            RouteAttribute::PrefSource(RouteAddress::Inet6(ip)) => way.source = Some((*ip).into()),
            RouteAttribute::Metrics(metrics) => {
                way.mtu = metrics.iter().find_map(|metric| match metric {
                    RouteMetric::Mtu(mtu) => Some(*mtu),
                    _ => None,
                });
            }
            // What was learned of the path to this one address, for some time.
            RouteAttribute::CacheInfo(cache) => is_learned = cache.expires != 0,
            _ => {}
        }
    }
    if is_learned {
        way.mtu = None;
    }
    way
}

/// Asks for the route of a packet of this host's own to `address`; `None` if there is none.
fn route_to(address: IpAddr) -> Option<RouteMessage> {
    let mut request = RouteMessage::default();
    let (family, length, destination) = match address {
        IpAddr::V4(ip) => (AddressFamily::Inet, 32, RouteAddress::Inet(ip)),
        IpAddr::V6(ip) => (AddressFamily::Inet6, 128, RouteAddress::Inet6(ip)),
    };
    request.header.address_family = family;
    request.header.destination_prefix_length = length;
    request
        .attributes
        .push(RouteAttribute::Destination(destination));
    match get(RouteNetlinkMessage::GetRoute(request)) {
        Ok(RouteNetlinkMessage::NewRoute(route)) => Some(route),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rtnetlink::packet_route::rule::RulePortRange;

    use super::*;

    #[test]
    fn a_route_to_another_host_names_its_interface() {
        let mut route = RouteMessage::default();
        route.attributes.push(RouteAttribute::Oif(7));
        for (kind, expected) in [
            (RouteType::Unicast, Some(7)),
            (RouteType::Local, None),
            (RouteType::BlackHole, None),
        ] {
            route.header.kind = kind;
            assert_eq!(interface(&route), expected, "{kind:?}");
        }
    }

    #[test]
    fn rules_by_source_mark_or_source_port_depend_on_the_sender() {
        let source = "10.1.1.3".parse().unwrap();
        let range = RulePortRange { start: 80, end: 80 };
        for (attributes, expected) in [
            (vec![], false),
            (vec![RuleAttribute::L3MDev(true)], false),
            (vec![RuleAttribute::Table(254)], false),
            (vec![RuleAttribute::Destination(source)], false),
            (vec![RuleAttribute::Iifname("eth1".to_owned())], false),
            (vec![RuleAttribute::SuppressPrefixLen(0)], false),
            (vec![RuleAttribute::Source(source)], true),
            (vec![RuleAttribute::FwMark(0x80)], true),
            // `fwmark 0/0x80`: all without this bit.
            (vec![RuleAttribute::FwMask(0x80)], true),
            (vec![RuleAttribute::SourcePortRange(range)], true),
        ] {
            let mut rule = RuleMessage::default();
            rule.attributes = attributes;
            assert_eq!(is_by_sender(&rule), expected, "{rule:?}");
        }
    }
}
