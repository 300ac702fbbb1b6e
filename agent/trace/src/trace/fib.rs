//! Routes, as the kernel looks them up: rules, then the longest prefix of a table, then the least metric.
//!
//! Of rules that ask for more than addresses, the interface and a mark of 0, none holds here; of several ways
//! with one route the first is taken, where the kernel takes one by a hash of the packet; what the kernel has
//! learned of single destinations (path MTU, redirects) is not known.

use std::net::IpAddr;

use ipnet::IpNet;
use shunt_programs::{Way, WayQuestion};

use crate::dump::{
    content::{Hop, Interface, LinkAddress, Route, RouteKind, Rule, RuleAction},
    record::Dump,
};

/// Results of `bpf_fib_lookup` (`linux/bpf.h`).
pub(crate) mod result {
    pub(crate) const SUCCESS: i64 = 0;
    pub(crate) const BLACKHOLE: i64 = 1;
    pub(crate) const UNREACHABLE: i64 = 2;
    pub(crate) const PROHIBIT: i64 = 3;
    pub(crate) const NOT_FORWARDED: i64 = 4;
    pub(crate) const FORWARDING_DISABLED: i64 = 5;
    pub(crate) const ENCAPSULATED: i64 = 6;
    pub(crate) const NO_NEIGHBOUR: i64 = 7;
    pub(crate) const TOO_LONG: i64 = 8;
}

/// Way of packets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found<'a> {
    /// By which route.
    pub(crate) route: &'a Route,
    /// The way that is taken of those that it has; none if it leads nowhere.
    pub(crate) hop: Option<&'a Hop>,
    /// Number of further ways that it has.
    pub(crate) others: usize,
}

/// The longest packet of IPv4 (`IP_MAX_MTU` of net/ip.h).
const LONGEST: u32 = 0xffff;

/// The routes of a dump's node.
#[derive(Debug, Clone, Copy)]
pub struct Fib<'a>(pub &'a Dump);

impl<'a> Fib<'a> {
    /// The interface with this index.
    pub(crate) fn interface(self, index: u32) -> Option<&'a Interface> {
        let mut interfaces = self.0.interfaces.iter();
        interfaces.find(|interface| interface.index == index)
    }

    /// Returns whether the address is one of the node's.
    pub(crate) fn is_own(self, address: IpAddr) -> bool {
        let addresses = self.0.interfaces.iter().flat_map(|one| &one.addresses);
        let is_loopback = address.is_loopback();
        is_loopback || addresses.into_iter().any(|own| own.addr() == address)
    }

    /// Finds the way of packets to `destination` that come from `source`, by this interface.
    pub(crate) fn look_up(
        self,
        interface: u32,
        source: IpAddr,
        destination: IpAddr,
    ) -> Result<Found<'a>, RouteKind> {
        let mut rules: Vec<&Rule> = self
            .0
            .rules
            .iter()
            .filter(|rule| rule.is_v6 == destination.is_ipv6())
            .collect();
        rules.sort_by_key(|rule| rule.priority);
        let name = self.interface(interface).map(|found| found.name.as_str());
        for rule in rules {
            if !holds(rule, name, source, destination) {
                continue;
            }
            let table = match rule.action {
                RuleAction::Table(table) => table,
                RuleAction::Blackhole => return Err(RouteKind::Blackhole),
                RuleAction::Unreachable => return Err(RouteKind::Unreachable),
                RuleAction::Prohibit => return Err(RouteKind::Prohibit),
                RuleAction::Other => continue,
            };
            let Some(route) = self.best(table, source, destination) else {
                continue;
            };
            let is_suppressed = rule
                .suppressed
                .is_some_and(|length| u32::from(route.destination.prefix_len()) <= length);
            match route.kind {
                RouteKind::Throw => {}
                _ if is_suppressed => {}
                kind @ (RouteKind::Blackhole | RouteKind::Unreachable | RouteKind::Prohibit) => {
                    return Err(kind);
                }
                _ => return Ok(Self::found(route)),
            }
        }
        // What the kernel answers if no rule leads to a route: `-ENETUNREACH`.
        Err(RouteKind::Other)
    }

    /// The route of the table.
    fn best(self, table: u32, source: IpAddr, destination: IpAddr) -> Option<&'a Route> {
        let routes = self.0.routes.iter().filter(|route| {
            route.table == table
                && route.tos == 0
                && is_in(&route.destination, destination)
                && route.source.is_none_or(|from| is_in(&from, source))
                && self.is_alive(route)
        });
        // Of those that are alike the first is the kernel's.
        routes.min_by_key(|route| {
            let source = route.source.map_or(0, |from| from.prefix_len());
            (
                u8::MAX - route.destination.prefix_len(),
                u8::MAX - source,
                route.metric,
            )
        })
    }

    fn is_alive(self, route: &Route) -> bool {
        let is_up = |hop: &Hop| {
            let interface = self.interface(hop.interface);
            !hop.is_dead && interface.is_some_and(|interface| interface.is_up)
        };
        route.hops.is_empty() || route.hops.iter().any(is_up)
    }

    fn found(route: &'a Route) -> Found<'a> {
        let alive = route.hops.iter().filter(|hop| !hop.is_dead);
        Found {
            route,
            hop: alive.clone().next(),
            others: alive.count().saturating_sub(1),
        }
    }

    /// Returns the maximum length of a packet on this way.
    pub(crate) fn mtu(self, route: &Route, hop: &Hop) -> u32 {
        let of_link = self.link_mtu(hop);
        let longest = match route.destination {
            IpNet::V4(_) => LONGEST,
            IpNet::V6(_) => u32::MAX,
        };
        route.mtu.unwrap_or(of_link).min(longest)
    }

    fn link_mtu(self, hop: &Hop) -> u32 {
        let interface = self.interface(hop.interface);
        interface.map_or(LONGEST, |found| found.mtu)
    }

    /// The link address of a neighbour, if the kernel knows it.
    pub(crate) fn neighbour(self, interface: u32, address: IpAddr) -> Option<LinkAddress> {
        let found = self.0.neighbours.iter().find(|neighbour| {
            neighbour.interface == interface && neighbour.address == address && neighbour.is_valid
        })?;
        // One without an address is on a link that needs none.
        Some(found.link_address.unwrap_or(LinkAddress([0; 6])))
    }

    /// Returns whether packets that come in there are forwarded.
    pub(crate) fn forwards(self, interface: u32, is_v6: bool) -> bool {
        self.interface(interface).is_some_and(|interface| {
            if is_v6 {
                interface.forwards_v6
            } else {
                interface.forwards_v4
            }
        })
    }

    /// As `bpf_fib_lookup` answers (net/core/filter.c): its result, and the way if there is one.
    pub fn ask(self, question: &WayQuestion) -> (i64, Option<Way>) {
        let WayQuestion {
            interface,
            source,
            destination,
            length,
        } = *question;
        if !self.forwards(interface, destination.is_ipv6()) {
            return (result::FORWARDING_DISABLED, None);
        }
        let found = match self.look_up(interface, source, destination) {
            Ok(found) => found,
            Err(RouteKind::Blackhole) => return (result::BLACKHOLE, None),
            Err(RouteKind::Unreachable) => return (result::UNREACHABLE, None),
            Err(RouteKind::Prohibit) => return (result::PROHIBIT, None),
            Err(_) => return (result::NOT_FORWARDED, None),
        };
        let (RouteKind::Unicast, Some(hop)) = (found.route.kind, found.hop) else {
            return (result::NOT_FORWARDED, None);
        };
        let mtu = self.mtu(found.route, hop);
        let mut way = Way {
            interface,
            gateway: None,
            mtu: mtu as u16,
            link: None,
        };
        if u32::from(length) > mtu {
            return (result::TOO_LONG, Some(way));
        }
        if found.route.has_encapsulation {
            return (result::ENCAPSULATED, None);
        }
        way.interface = hop.interface;
        // As the kernel writes the gateway over the destination, one that is the destination shows as none.
        way.gateway = hop.gateway.filter(|gateway| *gateway != destination);
        let next = hop.gateway.unwrap_or(destination);
        match self.neighbour(hop.interface, next) {
            None => {
                // What was asked is left there.
                way.mtu = length;
                (result::NO_NEIGHBOUR, Some(way))
            }
            Some(LinkAddress(next)) => {
                let own = self.interface(hop.interface);
                let own = own.and_then(|interface| interface.link_address);
                if length == 0 {
                    // TC programs that give no length get the link's.
                    way.mtu = self.link_mtu(hop) as u16;
                }
                way.link = Some((own.map_or([0; 6], |LinkAddress(own)| own), next));
                (result::SUCCESS, Some(way))
            }
        }
    }
}

/// Returns whether an address is in a range of its family.
fn is_in(range: &IpNet, address: IpAddr) -> bool {
    range.contains(&address)
}

fn holds(rule: &Rule, interface: Option<&str>, source: IpAddr, destination: IpAddr) -> bool {
    let is_all = |range: Option<IpNet>, address| range.is_none_or(|range| is_in(&range, address));
    let asks = is_all(rule.source, source)
        && is_all(rule.destination, destination)
        && rule
            .interface
            .as_deref()
            .is_none_or(|name| Some(name) == interface)
        && rule.mark & rule.mask == 0
        && !rule.has_more;
    asks != rule.is_inverted
}

#[cfg(test)]
mod tests;
