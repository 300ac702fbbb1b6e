//! The node's network, as the kernel reports it.

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use ipnet::IpNet;
use rtnetlink::packet_route::{
    AddressFamily, RouteNetlinkMessage,
    address::{AddressAttribute, AddressMessage},
    link::{
        AfSpecInet, AfSpecInet6, AfSpecUnspec, LinkAttribute, LinkFlags, LinkLayerType, LinkMessage,
    },
    neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState},
    route::{
        RouteAddress, RouteAttribute, RouteMessage, RouteMetric, RouteNextHopFlags, RouteType,
        RouteVia,
    },
    rule::{RuleAction as Action, RuleAttribute, RuleFlags, RuleMessage},
};
use shunt_datapath::netlink_dump;
use shunt_trace::{
    Hop, Interface, LinkAddress, Neighbour, Record, Route, RouteKind, Rule, RuleAction,
};

/// All that packets' ways depend on: interfaces, routes, rules and neighbours.
///
/// # Errors
///
/// If the kernel does not report it.
pub(super) fn network() -> io::Result<Vec<Record>> {
    let mut records: Vec<Record> = interfaces()?.into_iter().map(Record::Interface).collect();
    for family in [AddressFamily::Inet, AddressFamily::Inet6] {
        let mut request = RouteMessage::default();
        request.header.address_family = family;
        let routes = netlink_dump(
            RouteNetlinkMessage::GetRoute(request),
            |message| match message {
                RouteNetlinkMessage::NewRoute(message) => route(&message).map(Record::Route),
                _ => None,
            },
        )?;
        let mut request = RuleMessage::default();
        request.header.family = family;
        let rules = netlink_dump(
            RouteNetlinkMessage::GetRule(request),
            |message| match message {
                RouteNetlinkMessage::NewRule(message) => Some(Record::Rule(rule(&message))),
                _ => None,
            },
        )?;
        let mut request = NeighbourMessage::default();
        request.header.family = family;
        let request = RouteNetlinkMessage::GetNeighbour(request);
        let neighbours = netlink_dump(request, |message| match message {
            RouteNetlinkMessage::NewNeighbour(message) => {
                neighbour(&message).map(Record::Neighbour)
            }
            _ => None,
        })?;
        for listing in [routes, rules, neighbours] {
            records.extend(listing.items);
        }
    }
    Ok(records)
}

fn interfaces() -> io::Result<Vec<Interface>> {
    let request = LinkMessage::default();
    let links = netlink_dump(
        RouteNetlinkMessage::GetLink(request),
        |message| match message {
            RouteNetlinkMessage::NewLink(message) => Some(interface(&message)),
            _ => None,
        },
    )?;
    let links = links.items.into_iter();
    let mut interfaces: BTreeMap<_, _> = links.map(|link| (link.index, link)).collect();
    let request = AddressMessage::default();
    let addresses = netlink_dump(
        RouteNetlinkMessage::GetAddress(request),
        |message| match message {
            RouteNetlinkMessage::NewAddress(message) => {
                Some((message.header.index, address(&message)?))
            }
            _ => None,
        },
    )?;
    for (index, address) in addresses.items {
        if let Some(interface) = interfaces.get_mut(&index) {
            interface.addresses.push(address);
        }
    }
    Ok(interfaces.into_values().collect())
}

fn interface(message: &LinkMessage) -> Interface {
    let mut interface = Interface {
        index: message.header.index,
        name: String::new(),
        mtu: 0,
        // As the agent chooses programs: `agent/datapath/src/attach/link_layer.rs`.
        is_ethernet: matches!(
            message.header.link_layer_type,
            LinkLayerType::Ether | LinkLayerType::Loopback
        ),
        is_up: message.header.flags.contains(LinkFlags::Up),
        link_address: None,
        addresses: Vec::new(),
        forwards_v4: false,
        forwards_v6: false,
    };
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => interface.name.clone_from(name),
            LinkAttribute::Mtu(mtu) => interface.mtu = *mtu,
            LinkAttribute::Address(bytes) => interface.link_address = link_address(bytes),
            LinkAttribute::AfSpecUnspec(families) => {
                for family in families {
                    forwarding(family, &mut interface);
                }
            }
            _ => {}
        }
    }
    interface
}

/// Notes whether the interface forwards packets that come in.
fn forwarding(family: &AfSpecUnspec, interface: &mut Interface) {
    match family {
        AfSpecUnspec::Inet(attributes) => {
            interface.forwards_v4 |= attributes.iter().any(|attribute| {
                matches!(attribute, AfSpecInet::DevConf(settings) if settings.forwarding != 0)
            });
        }
        AfSpecUnspec::Inet6(attributes) => {
            interface.forwards_v6 |= attributes.iter().any(|attribute| {
                matches!(attribute, AfSpecInet6::DevConf(settings) if settings.forwarding != 0)
            });
        }
        _ => {}
    }
}

fn link_address(bytes: &[u8]) -> Option<LinkAddress> {
    bytes.try_into().ok().map(LinkAddress)
}

/// The interface's own address: with a peer that is the local one.
fn address(message: &AddressMessage) -> Option<IpNet> {
    let find = |is_local: bool| {
        message
            .attributes
            .iter()
            .find_map(|attribute| match attribute {
                AddressAttribute::Local(address) if is_local => Some(*address),
                AddressAttribute::Address(address) if !is_local => Some(*address),
                _ => None,
            })
    };
    let address = find(true).or_else(|| find(false))?;
    IpNet::new(address, message.header.prefix_len).ok()
}

fn route(message: &RouteMessage) -> Option<Route> {
    let header = &message.header;
    let unspecified: IpAddr = match header.address_family {
        AddressFamily::Inet => Ipv4Addr::UNSPECIFIED.into(),
        AddressFamily::Inet6 => Ipv6Addr::UNSPECIFIED.into(),
        _ => return None,
    };
    // Of IPv6, the kernel lists what it remembers of single destinations too.
    let range = |address, length| IpNet::new(address, length).ok();
    let mut route = Route {
        table: header.table.into(),
        destination: range(unspecified, header.destination_prefix_length)?,
        kind: kind(header.kind),
        metric: 0,
        tos: header.tos,
        source: None,
        mtu: None,
        hops: Vec::new(),
        has_encapsulation: false,
    };
    let mut only = Hop {
        interface: 0,
        gateway: None,
        weight: 1,
        is_dead: dead(RouteNextHopFlags::from_bits_retain(
            header.flags.bits() as u8
        )),
    };
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Table(table) => route.table = *table,
            RouteAttribute::Destination(to) => {
                route.destination = range(ip(to)?, header.destination_prefix_length)?;
            }
            RouteAttribute::Source(from) if header.source_prefix_length > 0 => {
                route.source = range(ip(from)?, header.source_prefix_length);
            }
            RouteAttribute::Priority(metric) => route.metric = *metric,
            RouteAttribute::Metrics(metrics) => route.mtu = locked_mtu(metrics),
            RouteAttribute::Oif(index) => only.interface = *index,
            RouteAttribute::EncapType(_) => route.has_encapsulation = true,
            RouteAttribute::MultiPath(hops) => {
                route.hops = hops
                    .iter()
                    .map(|hop| Hop {
                        interface: hop.interface_index,
                        gateway: hop.attributes.iter().find_map(gateway),
                        weight: u32::from(hop.hops) + 1,
                        is_dead: dead(hop.flags),
                    })
                    .collect();
            }
            other => only.gateway = only.gateway.or_else(|| gateway(other)),
        }
    }
    if route.hops.is_empty() && only.interface != 0 {
        route.hops.push(only);
    }
    Some(route)
}

/// The longest packet, if the route announces it to routers: else it is for this node's own packets alone
/// (`ip_mtu_from_fib_result` of net/ipv4/route.c, `ip6_mtu_from_fib6` of net/ipv6/route.c).
fn locked_mtu(metrics: &[RouteMetric]) -> Option<u32> {
    /// `RTAX_MTU` of `linux/rtnetlink.h`, as a bit.
    const MTU: u32 = 1 << 2;
    let is_locked = metrics
        .iter()
        .any(|metric| matches!(metric, RouteMetric::Lock(bits) if bits & MTU != 0));
    let mtu = metrics.iter().find_map(|metric| match metric {
        RouteMetric::Mtu(mtu) => Some(*mtu),
        _ => None,
    });
    mtu.filter(|_| is_locked)
}

fn dead(flags: RouteNextHopFlags) -> bool {
    flags.intersects(RouteNextHopFlags::Dead)
}

fn gateway(attribute: &RouteAttribute) -> Option<IpAddr> {
    match attribute {
        RouteAttribute::Gateway(address) => ip(address),
        RouteAttribute::Via(RouteVia::Inet(address)) => Some((*address).into()),
        RouteAttribute::Via(RouteVia::Inet6(address)) => Some((*address).into()),
        _ => None,
    }
}

const fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some(IpAddr::V4(*address)),
        RouteAddress::Inet6(address) => Some(IpAddr::V6(*address)),
        _ => None,
    }
}

const fn kind(kind: RouteType) -> RouteKind {
    match kind {
        RouteType::Unicast => RouteKind::Unicast,
        RouteType::Local => RouteKind::Local,
        RouteType::Broadcast => RouteKind::Broadcast,
        RouteType::Multicast => RouteKind::Multicast,
        RouteType::Anycast => RouteKind::Anycast,
        RouteType::BlackHole => RouteKind::Blackhole,
        RouteType::Unreachable => RouteKind::Unreachable,
        RouteType::Prohibit => RouteKind::Prohibit,
        RouteType::Throw => RouteKind::Throw,
        _ => RouteKind::Other,
    }
}

fn rule(message: &RuleMessage) -> Rule {
    let header = &message.header;
    let mut table = u32::from(header.table);
    let is_v6 = header.family == AddressFamily::Inet6;
    let mut rule = Rule {
        is_inverted: header.flags.contains(RuleFlags::Invert),
        has_more: header.tos != 0,
        ..Rule::of_all(is_v6, 0, RuleAction::Other)
    };
    for attribute in &message.attributes {
        match attribute {
            RuleAttribute::Table(number) => table = *number,
            RuleAttribute::Priority(priority) => rule.priority = *priority,
            RuleAttribute::Source(from) => rule.source = IpNet::new(*from, header.src_len).ok(),
            RuleAttribute::Destination(to) => {
                rule.destination = IpNet::new(*to, header.dst_len).ok();
            }
            RuleAttribute::Iifname(name) => rule.interface = Some(name.clone()),
            RuleAttribute::FwMark(mark) => rule.mark = *mark,
            RuleAttribute::FwMask(mask) => rule.mask = *mask,
            RuleAttribute::SuppressPrefixLen(length) if *length != u32::MAX => {
                rule.suppressed = Some(*length);
            }
            RuleAttribute::Oifname(_)
            | RuleAttribute::L3MDev(true)
            | RuleAttribute::UidRange(_)
            | RuleAttribute::IpProtocol(_)
            | RuleAttribute::SourcePortRange(_)
            | RuleAttribute::DestinationPortRange(_)
            | RuleAttribute::Goto(_) => rule.has_more = true,
            RuleAttribute::TunId(id) if *id != 0 => rule.has_more = true,
            RuleAttribute::SuppressIfGroup(group) if *group != u32::MAX => rule.has_more = true,
            _ => {}
        }
    }
    rule.action = match header.action {
        Action::ToTable => RuleAction::Table(table),
        Action::Blackhole => RuleAction::Blackhole,
        Action::Unreachable => RuleAction::Unreachable,
        Action::Prohibit => RuleAction::Prohibit,
        _ => RuleAction::Other,
    };
    rule
}

fn neighbour(message: &NeighbourMessage) -> Option<Neighbour> {
    let mut address = None;
    let mut link = None;
    for attribute in &message.attributes {
        match attribute {
            NeighbourAttribute::Destination(NeighbourAddress::Inet(to)) => {
                address = Some(IpAddr::V4(*to));
            }
            NeighbourAttribute::Destination(NeighbourAddress::Inet6(to)) => {
                address = Some(IpAddr::V6(*to));
            }
            NeighbourAttribute::LinkLayerAddress(bytes) => link = link_address(bytes),
            _ => {}
        }
    }
    Some(Neighbour {
        interface: message.header.ifindex,
        address: address?,
        link_address: link,
        // `NUD_VALID` of net/neighbour.h.
        is_valid: matches!(
            message.header.state,
            NeighbourState::Permanent
                | NeighbourState::Noarp
                | NeighbourState::Reachable
                | NeighbourState::Probe
                | NeighbourState::Stale
                | NeighbourState::Delay
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_of_the_loopback_interface_and_of_its_rules() {
        let records = network().unwrap();
        let loopback = records.iter().any(
            |record| matches!(record, Record::Interface(Interface { name, index: 1, .. }) if name == "lo"),
        );
        assert!(loopback, "{records:?}");
        let main = records.iter().any(
            |record| matches!(record, Record::Rule(rule) if rule.action == RuleAction::Table(254)),
        );
        assert!(main, "{records:?}");
    }
}
