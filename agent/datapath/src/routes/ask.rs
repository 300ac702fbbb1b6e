//! Questions to the kernel about routes and rules.

use std::{fmt, io, net::IpAddr};

use ipnet::IpNet;
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

/// Where the routes of one prefix lead: their kinds, and what they say of it.
pub(super) type Leads = Vec<(RouteType, Vec<RouteAttribute>)>;

/// Returns the routes to other hosts, of all tables.
///
/// # Errors
///
/// If there are more than `most`, or the kernel does not list them.
pub(super) fn routes(family: Family, most: usize) -> io::Result<Routes<Leads>> {
    let mut request = RouteMessage::default();
    request.header.address_family = family.number();
    let (mut routes, mut count) = (Routes::<Leads>::new(), 0);
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
            match read(route) {
                Some(route) => Found::Item(route),
                None => Found::Nothing,
            }
        },
    );
    for (table, prefix, kind, says) in listed?.items {
        let leads = routes.entry(table).or_default().entry(prefix).or_default();
        leads.push((kind, says));
    }
    if count > most {
        return Err(io::Error::other(format!("there are more than {most}")));
    }
    Ok(routes)
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

/// Returns the prefixes of destinations that rules name.
///
/// # Errors
///
/// If the kernel does not list them.
pub(super) fn rules(family: Family) -> io::Result<Vec<IpNet>> {
    let mut request = RuleMessage::default();
    request.header.family = family.number();
    let listed = dump(RouteNetlinkMessage::GetRule(request), |message| {
        let RouteNetlinkMessage::NewRule(rule) = message else {
            return None;
        };
        let length = rule.header.dst_len;
        rule.attributes
            .iter()
            .find_map(|attribute| match attribute {
                RuleAttribute::Destination(ip) => Some(IpNet::new(*ip, length).ok()?.trunc()),
                _ => None,
            })
    });
    Ok(listed?.items)
}

/// Asks for the way of a packet of this host's own to `address`. If there is none, nothing is known of it.
pub(super) fn ask(address: IpAddr) -> Way {
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
    let Ok(RouteNetlinkMessage::NewRoute(route)) = get(RouteNetlinkMessage::GetRoute(request))
    else {
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
